/* host/port.h: what came to us alone is read before what a group has brought since, for whoever was stopped.
 *
 * Packets of this machine are usually there when sendto returns, but nobody promises it: a trial that needs them is repeated.
 */
#include <stdlib.h>

#include "host/clock.h"
#include "host/port_inbox.h"
#include "test.h"

#define LONG  (60 * PDI_TIME_S)
#define TRIES 10
#define MANY  40U /* some calls' worth */
#define LAST  1000U
#define GROUP {.ip = {239, 255, 77, 3}, .port = 29979, .kind = 4}

static const pyddsi_endpoint group = GROUP;

struct pair {
    struct pdi_port *reads;
    struct pdi_port *writes;
    pyddsi_endpoint local; /* of who reads */
};

static struct pdi_port *open_port(pyddsi_endpoint *local)
{
    struct pdi_port_options options = {.interface = "lo",
                                       .family = 4,
                                       .ttl = 1,
                                       .loopback = 1,
                                       .many = 1,
                                       .groups = 1,
                                       .group = {GROUP}};
    struct pdi_port *port = NULL;
    char said[400] = "";
    CHECK_EQ(pdi_port_open(&port, &options, local, said, sizeof said), PYDDSI_OK);
    CHECK_TEXT(said, "");
    if (port == NULL) { /* nothing that follows would make sense */
        exit(test_result());
    }
    return port;
}

static void say(struct pair *pair, const pyddsi_endpoint *to, uint32_t number)
{
    CHECK_EQ(pdi_port_send(pair->writes, to, (const uint8_t *)&number, sizeof number), PYDDSI_OK);
}

/* The next number; LAST + 1: there is none. */
static uint32_t hear(struct pair *pair)
{
    uint32_t number = LAST + 1;
    size_t size;
    pyddsi_endpoint from;
    (void)pdi_port_receive(pair->reads, (uint8_t *)&number, sizeof number, &size, &from);
    return number;
}

static void succeed_once(const char *name, bool (*trial)(struct pair *))
{
    bool good = false;
    for (int tries = 0; tries < TRIES && !good; tries++) {
        struct pair pair;
        pyddsi_endpoint other;
        pair.reads = open_port(&pair.local);
        pair.writes = open_port(&other);
        good = trial(&pair);
        pdi_port_close(pair.reads);
        pdi_port_close(pair.writes);
    }
    CHECK_TEXT(good ? name : "", name);
}

/* Both have something when we look. */
static bool both_lie_there(struct pair *pair)
{
    say(pair, &group, LAST);
    for (uint32_t i = 0; i < MANY; i++) {
        say(pair, &pair->local, i);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        if (hear(pair) != i) {
            return false;
        }
    }
    return hear(pair) == LAST && hear(pair) > LAST;
}

/* We have looked, only the group has something, and are stopped; when we go on the other has something, too. */
static bool stopped_between(struct pair *pair)
{
    bool good = true;
    for (uint32_t round = 0; round < 3; round++) {
        say(pair, &group, LAST);
        CHECK_EQ(pdi_port_wait(pair->reads, LONG), PYDDSI_OK);
        pair->reads->empty = pdi_clock_now() - PDI_TIME_S;
        for (uint32_t i = 0; i < MANY; i++) {
            say(pair, &pair->local, i);
        }
        good = good && hear(pair) == 0 && pair->reads->kept;
        /* what is kept back is not waited for */
        for (uint32_t i = 1; i < MANY; i++) {
            CHECK_EQ(pdi_port_wait(pair->reads, LONG), PYDDSI_OK);
            good = good && hear(pair) == i;
        }
        CHECK_EQ(pdi_port_wait(pair->reads, LONG), PYDDSI_OK);
        good = good && hear(pair) == LAST && !pair->reads->kept && hear(pair) > LAST;
    }
    return good;
}

/* We were not: then the group's needs no look at the other. */
static bool not_stopped(struct pair *pair)
{
    say(pair, &group, LAST);
    CHECK_EQ(pdi_port_wait(pair->reads, LONG), PYDDSI_OK);
    pair->reads->empty = pdi_clock_now() + LONG;
    say(pair, &pair->local, 0);
    bool good = hear(pair) == LAST;
    CHECK_EQ(pdi_port_wait(pair->reads, LONG), PYDDSI_OK);
    return good && hear(pair) == 0;
}

/* The unicast socket never gets empty. */
static bool flooded(struct pair *pair)
{
    uint32_t before = 0;
    uint32_t number = 0;
    say(pair, &pair->local, 0);
    say(pair, &pair->local, 0);
    say(pair, &group, LAST);
    for (; number == 0 && before < 100 * LAST; before++) {
        say(pair, &pair->local, 0);
        number = hear(pair);
    }
    if (number != LAST || before < 1000) {
        return false;
    }
    for (uint32_t i = 0; i < 10; i++) { /* from now on by turns */
        say(pair, &group, LAST);
    }
    for (before = 0; before < 20; before++) {
        say(pair, &pair->local, 0);
        if (hear(pair) == LAST) {
            return true;
        }
    }
    return false;
}

/* If one failed, who was stopped for so long that he was given up would hear what came after that before what came
 * before it; or who is not would be slowed down; or a flood would hide a group for ever. */
int main(void)
{
    succeed_once("both_lie_there", both_lie_there);
    succeed_once("stopped_between", stopped_between);
    succeed_once("not_stopped", not_stopped);
    succeed_once("flooded", flooded);
    return test_result();
}
