/* replay_core.c - what stands beside a replay, as replay.py compiles and runs it.
 *
 *     replay_core drain                  a socket that is read by nobody else: prints its port, and reads until it is killed
 *     replay_core send PORT COUNT SIZE   a bare sendmmsg loop, 64 datagrams a call: prints how many nanoseconds it took
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <signal.h>
#include <time.h>

enum { CALL = 64, DATA_MAX = 1472, RECEIVE_BYTES = 4 << 20 };

static int drain(void)
{
    static uint8_t data[65536];
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof here;
    int bytes = RECEIVE_BYTES;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    if (bind(fd, (struct sockaddr *)&here, size) < 0 ||
        getsockname(fd, (struct sockaddr *)&here, &size) < 0)
        return 1;
    printf("%u\n", (unsigned)ntohs(here.sin_port));
    (void)fflush(stdout);
    while (recv(fd, data, sizeof data, 0) >= 0) {
    }
    return 1;
}

static uint64_t now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

static int send_all(uint16_t port, uint64_t count, size_t size)
{
    static uint8_t data[DATA_MAX];
    struct sockaddr_in there = {.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                .sin_port = htons(port)};
    struct mmsghdr messages[CALL];
    struct iovec vector = {.iov_base = data, .iov_len = size};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < CALL; i++) {
        messages[i].msg_hdr = (struct msghdr){
            .msg_name = &there, .msg_namelen = sizeof there, .msg_iov = &vector, .msg_iovlen = 1};
    }
    uint64_t begun = now();
    for (uint64_t sent = 0; sent < count;) {
        uint64_t left = count - sent;
        int some = sendmmsg(fd, messages, left < CALL ? (unsigned)left : CALL, 0);
        if (some <= 0)
            return 1;
        sent += (uint64_t)some;
    }
    printf("%llu\n", (unsigned long long)(now() - begun));
    return 0;
}

int main(int count, char **words)
{
    if (count == 2 && strcmp(words[1], "drain") == 0)
        return drain();
    if (count == 5 && strcmp(words[1], "send") == 0 && strtoul(words[4], NULL, 10) <= DATA_MAX)
        return send_all((uint16_t)strtoul(words[2], NULL, 10), strtoull(words[3], NULL, 10),
                        strtoul(words[4], NULL, 10));
    return 2;
}
