/* base/endpoint.h: tables of good and bad texts, every cut and every changed byte, random
 * endpoints there and back. */
#include "base/endpoint.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/rand.h"
#include "test.h"

static const uint64_t SEED[2] = {11, 12};

static pyddsi_endpoint parse(const char *text)
{
    pyddsi_endpoint endpoint = {.kind = 99};
    CHECK_EQ(pdi_endpoint_parse(text, strlen(text), &endpoint), PYDDSI_OK);
    return endpoint;
}

/* The text of an endpoint, in memory that the next call uses again. */
static const char *print(const pyddsi_endpoint *endpoint)
{
    static char text[PDI_ENDPOINT_TEXT_MAX + 1];
    size_t size = pdi_endpoint_print(endpoint, text, sizeof text);
    CHECK(size < sizeof text);
    CHECK_EQ(strlen(text), size);
    return text;
}

/* Whether a text is refused, in memory of just its size, where a sanitizer sees one byte too much.
 * */
static bool is_refused(const char *text, size_t size)
{
    pyddsi_endpoint endpoint = {.kind = 99, .port = 98};
    char *copy = malloc(size + 1);
    memcpy(copy + 1, text, size);
    bool refused = pdi_endpoint_parse(copy + 1, size, &endpoint) == PYDDSI_BAD_INPUT;
    free(copy);
    return refused && endpoint.kind == 99 && endpoint.port == 98;
}

/* If it failed, a peer would be sought at another address than the one it told, or its locator
 * would not be the text that others compare. */
static void test_texts(void)
{
    const struct {
        const char *text;
        const char *canonical;
    } cases[] = {
        {"udp/10.0.0.1:7447", "udp/10.0.0.1:7447"},
        {"udp/239.255.0.1:7447", "udp/239.255.0.1:7447"},
        {"udp/0.0.0.0:0", "udp/0.0.0.0:0"},
        {"udp/255.255.255.255:65535", "udp/255.255.255.255:65535"},
        {"udp/[fe80::1]:7447", "udp/[fe80::1]:7447"},
        {"udp/[::]:0", "udp/[::]:0"},
        {"udp/[::1]:1", "udp/[::1]:1"},
        {"udp/[1::]:10", "udp/[1::]:10"},
        {"udp/[ff02::1:3]:5355", "udp/[ff02::1:3]:5355"},
        {"udp/[1:2:3:4:5:6:7:8]:9", "udp/[1:2:3:4:5:6:7:8]:9"},
        {"udp/[FFFF:ffff:FFFF:ffff:ABCD:ef01:FFFF:ffff]:65535",
         "udp/[ffff:ffff:ffff:ffff:abcd:ef01:ffff:ffff]:65535"},
        {"udp/[2001:0db8:0000:0000:0000:ff00:0042:8329]:80", "udp/[2001:db8::ff00:42:8329]:80"},
        {"udp/[1:0:0:2:0:0:0:3]:80", "udp/[1:0:0:2::3]:80"},
        {"udp/[1:0:0:2:3:0:0:4]:80", "udp/[1::2:3:0:0:4]:80"},
        {"udp/[1:0:2:3:4:5:6:7]:80", "udp/[1:0:2:3:4:5:6:7]:80"},
        {"udp/[1::2:3:4:5:6:7]:80", "udp/[1:0:2:3:4:5:6:7]:80"},
        {"udp/[0:0:1:2:3:4:5:6]:80", "udp/[::1:2:3:4:5:6]:80"},
        {"udp/[::1:2:3:4:5:6:7]:80", "udp/[0:1:2:3:4:5:6:7]:80"},
        {"udp/[1:2:3:4:5:6:7::]:80", "udp/[1:2:3:4:5:6:7:0]:80"},
        {"udp/[1:2:3:4:5:6:0:0]:80", "udp/[1:2:3:4:5:6::]:80"},
        {"udp/[0:1:0:0:0:0:0:0]:80", "udp/[0:1::]:80"},
        {"udp/[::ffff:a00:1]:80", "udp/[::ffff:a00:1]:80"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pyddsi_endpoint endpoint = parse(cases[i].text);
        CHECK_TEXT(print(&endpoint), cases[i].canonical);
    }
}

/* If it failed, the bytes of an address would be sent to in another order than they were written.
 * */
static void test_bytes(void)
{
    const uint8_t ip4[16] = {1, 20, 255, 4};
    const uint8_t ip6[16] = {0xfe, 0x80, [13] = 2, [14] = 0xab, [15] = 0xc};
    pyddsi_endpoint endpoint = parse("udp/1.20.255.4:513");
    CHECK(memcmp(endpoint.ip, ip4, 16) == 0);
    CHECK_EQ(endpoint.port, 513);
    CHECK_EQ(endpoint.kind, PDI_ENDPOINT_UDP4);
    endpoint = parse("udp/[fe80::2:ab0c]:65535");
    CHECK(memcmp(endpoint.ip, ip6, 16) == 0);
    CHECK_EQ(endpoint.port, 65535);
    CHECK_EQ(endpoint.kind, PDI_ENDPOINT_UDP6);
}

/* If it failed, a text would be taken that another program reads as another place. */
static void test_refuses(void)
{
    static const char *const cases[] = {
        "",
        "udp",
        "udp/",
        "tcp/10.0.0.1:1",
        "UDP/10.0.0.1:1",
        "udp:10.0.0.1:1",
        "10.0.0.1:1",
        "udp/10.0.0.1",
        "udp/10.0.0.1:",
        "udp/10.0.0.1:65536",
        "udp/10.0.0.1:99999",
        "udp/10.0.0.1:4294967297",
        "udp/10.0.0.1:01",
        "udp/10.0.0.1:00",
        "udp/10.0.0.1:-1",
        "udp/10.0.0.1:+1",
        "udp/10.0.0.1:1 ",
        " udp/10.0.0.1:1",
        "udp/10.0.0.1: 1",
        "udp/10.0.0.1:0x1",
        "udp/10.0.0.1:1:2",
        "udp/10.0.0.01:1",
        "udp/010.0.0.1:1",
        "udp/00.0.0.1:1",
        "udp/256.0.0.1:1",
        "udp/10.0.0.256:1",
        "udp/10.0.1:1",
        "udp/10.0.0.0.1:1",
        "udp/10.0..1:1",
        "udp/.0.0.1:1",
        "udp/10.0.0.:1",
        "udp/10.0.0.1.:1",
        "udp/a.0.0.1:1",
        "udp/167772161:1",
        "udp/4294967306.0.0.1:1",
        "udp/localhost:1",
        "udp/::1:1",
        "udp/[]:1",
        "udp/[:]:1",
        "udp/[:::]:1",
        "udp/[1]:1",
        "udp/[1:2:3:4:5:6:7]:1",
        "udp/[1:2:3:4:5:6:7:8:9]:1",
        "udp/[1:2:3:4:5:6:7:8::]:1",
        "udp/[::1:2:3:4:5:6:7:8]:1",
        "udp/[1:2:3:4::5:6:7:8]:1",
        "udp/[1::2::3]:1",
        "udp/[1:::2]:1",
        "udp/[:1::2]:1",
        "udp/[:1:2:3:4:5:6:7:8]:1",
        "udp/[1:2:3:4:5:6:7:]:1",
        "udp/[1::2:]:1",
        "udp/[::12345]:1",
        "udp/[::g]:1",
        "udp/[::1%1]:1",
        "udp/[::1",
        "udp/[::1]",
        "udp/[::1]:",
        "udp/[::1]1",
        "udp/[ ::1]:1",
        "udp/[::1 ]:1",
        "udp/[::10.0.0.1]:1",
        "udp/[10.0.0.1]:1",
        "udp/10.0.0.1]:1",
        "udp/[[::1]]:1",
        "udp/[1 2::]:1",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool refused = is_refused(cases[i], strlen(cases[i]));
        CHECK(refused);
        if (!refused) {
            printf("taken: \"%s\"\n", cases[i]);
        }
    }
    CHECK(is_refused("udp/10.0.0.1:1\0", 15)); /* a zero is a byte like others */
    CHECK(is_refused("udp/10.0.0.1:0000000000000000000000000000000000000000000001", 58));
}

/* Checks that a text is either refused, or that of an endpoint with the same bytes. */
static void check_text(const char *text, size_t size)
{
    pyddsi_endpoint endpoint = {.kind = 99};
    pyddsi_endpoint again = {.kind = 98};
    if (is_refused(text, size)) {
        return;
    }
    CHECK_EQ(pdi_endpoint_parse(text, size, &endpoint), PYDDSI_OK);
    const char *canonical = print(&endpoint);
    CHECK_EQ(pdi_endpoint_parse(canonical, strlen(canonical), &again), PYDDSI_OK);
    CHECK_EQ(pdi_endpoint_equal(&endpoint, &again), 1);
}

/* If it failed, a broken locator from the network would be read past its end, or made into a place
 * that nobody meant. */
static void test_broken_texts(void)
{
    static const char *const texts[] = {"udp/10.200.0.1:7447", "udp/[fe80::1:203]:7447",
                                        "udp/[1:2:3:4:5:6:7:8]:65535"};
    static const char letters[] = ":]:[.0123456789abcdefgF/ %";
    struct pdi_rand rand;
    pdi_rand_init(&rand, 5);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        size_t size = strlen(texts[i]);
        for (size_t cut = 0; cut < size; cut++) {
            if (texts[i][cut] < '0' || texts[i][cut] > '9' || texts[i][cut - 1] == ':') {
                check_text(texts[i], cut);
            }
            CHECK(cut > size - 5 || is_refused(texts[i], cut));
        }
        for (int round = 0; round < 30000; round++) {
            char text[40];
            memcpy(text, texts[i], size);
            for (uint64_t change = pdi_rand_below(&rand, 4) + 1; change > 0; change--) {
                text[pdi_rand_below(&rand, size)] =
                    letters[pdi_rand_below(&rand, sizeof letters - 1)];
            }
            check_text(text, size - pdi_rand_below(&rand, 3));
        }
    }
}

static pyddsi_endpoint random_endpoint(struct pdi_rand *rand)
{
    pyddsi_endpoint endpoint = {.kind = pdi_rand_chance(rand, 1, 2) ? 4 : 6,
                                .port = (uint16_t)pdi_rand_u64(rand)};
    for (size_t i = 0; i < (endpoint.kind == 4 ? 4 : 16); i++) {
        endpoint.ip[i] = (uint8_t)pdi_rand_u64(rand);
    }
    for (size_t group = 0; group < 8; group++) { /* runs of zeros of every length and place */
        if (pdi_rand_chance(rand, 1, 2)) {
            memset(endpoint.ip + group * 2, 0, 2);
        }
    }
    return endpoint;
}

/* If it failed, an endpoint would come back from its text as another one, or two would share a
 * text. */
static void test_there_and_back(void)
{
    struct pdi_rand rand;
    pdi_rand_init(&rand, 1);
    for (int round = 0; round < 20000; round++) {
        pyddsi_endpoint endpoint = random_endpoint(&rand);
        pyddsi_endpoint again = parse(print(&endpoint));
        CHECK_EQ(pdi_endpoint_equal(&endpoint, &again), 1);
        const char *runs = strstr(print(&endpoint), ":0:0:0");
        CHECK(endpoint.kind == 4 || runs == NULL || strstr(print(&endpoint), "::") != NULL);
    }
}

/* If it failed, a text would be written past the memory it was given, or not be ended. */
static void test_print_into_little_room(void)
{
    pyddsi_endpoint endpoint = parse("udp/[fe80::1]:7447");
    const char *full = "udp/[fe80::1]:7447";
    for (size_t room = 0; room <= 20; room++) {
        char out[24];
        memset(out, '#', sizeof out);
        CHECK_EQ(pdi_endpoint_print(&endpoint, out, room), 18);
        size_t written = room == 0 ? 0 : room > 18 ? 18 : room - 1;
        CHECK(memcmp(out, full, written) == 0);
        CHECK_EQ(out[written], room == 0 ? '#' : '\0');
        CHECK_EQ(out[room > written ? room : written + 1], '#');
    }
    char out[4] = "###";
    endpoint = (pyddsi_endpoint){.kind = PDI_ENDPOINT_NONE};
    CHECK_EQ(pdi_endpoint_print(&endpoint, out, sizeof out), 0);
    CHECK_TEXT(out, "");
    CHECK_EQ(pdi_endpoint_print(&endpoint, NULL, 0), 0);
}

/* If it failed, packets of one peer would be taken for another's, or a peer would not be found
 * again. */
static void test_equal_and_key(void)
{
    struct pdi_rand rand;
    pdi_rand_init(&rand, 3);
    const uint64_t other_seed[2] = {11, 13};
    for (int round = 0; round < 2000; round++) {
        pyddsi_endpoint one = random_endpoint(&rand);
        pyddsi_endpoint two;
        memset(&two, 0xff, sizeof two); /* what lies between the fields does not count */
        memcpy(two.ip, one.ip, 16);
        two.port = one.port;
        two.kind = one.kind;
        CHECK_EQ(pdi_endpoint_equal(&one, &two), 1);
        uint64_t key = pdi_endpoint_key(SEED, &one);
        CHECK(pdi_endpoint_key(SEED, &two) == key);
        CHECK(pdi_endpoint_key(other_seed, &one) != key);
        for (int bit = 0; bit < 19 * 8; bit++) {
            two = one;
            uint8_t flip = (uint8_t)(1 << bit % 8);
            if (bit < 128) {
                two.ip[bit / 8] ^= flip;
            } else if (bit < 144) {
                two.port = (uint16_t)(two.port ^ 1 << (bit - 128));
            } else {
                two.kind ^= flip;
            }
            CHECK_EQ(pdi_endpoint_equal(&one, &two), 0);
            if (one.kind == 6 || bit < 32 || bit >= 128) { /* IPv4 has no more bytes */
                CHECK(pdi_endpoint_key(SEED, &two) != key);
            }
        }
    }
}

/* If it failed, the map from endpoints to peers would depend on the machine, or could be attacked
 * with addresses that are alike. */
static void test_keys_spread(void)
{
    static uint8_t used[4096];
    int taken = 0;
    for (unsigned i = 0; i < 4096; i++) { /* neighbours, as an attacker has them */
        pyddsi_endpoint endpoint = {
            .kind = 4, .port = (uint16_t)(i & 63), .ip = {10, 0, 0, (uint8_t)(i >> 6)}};
        taken += used[pdi_endpoint_key(SEED, &endpoint) & 4095]++ == 0;
    }
    CHECK(taken > 2450 && taken < 2730); /* 1 - 1/e of them: 2589, give or take 5 sigma of 25 */
}

int main(void)
{
    test_texts();
    test_bytes();
    test_refuses();
    test_broken_texts();
    test_there_and_back();
    test_print_into_little_room();
    test_equal_and_key();
    test_keys_spread();
    return test_result();
}
