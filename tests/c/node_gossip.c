/* node/gossip.c: peers that tell of peers, and what one that lies can cost. Worlds in which nodes meet by it are in the
 * simulator (star). */
#define _GNU_SOURCE
#include "lone.h"

#include "wire/encode.h"
#include "wire/list.h"

#define MS    PDI_TIME_MS
#define PEERS 40U

static void *memory;

static struct pdi_node *make(void)
{
    pyddsi_config config;
    pdi_config_init(&config);
    return lone_node(&config, PEERS, &memory);
}

/* One that makes connections. */
static struct pdi_node *make_calling(uint8_t first)
{
    pyddsi_config config;
    pdi_config_init(&config);
    config.id[0] = first;
    config.asked_count = 1;
    config.asked[0] = (pyddsi_endpoint){.kind = PDI_ENDPOINT_TCP4};
    return lone_node(&config, PEERS, &memory);
}

static pyddsi_endpoint place(uint32_t number)
{
    return (pyddsi_endpoint){
        .kind = 4, .ip = {10, 0, (uint8_t)(number >> 8), (uint8_t)number}, .port = 7000};
}

static void come(struct pdi_node *node, uint32_t peer, bool grouped, bool ours)
{
    struct pdi_node_peer *who = &node->peers[peer];
    node->peers_used = peer >= node->peers_used ? peer + 1 : node->peers_used;
    who->id_size = 8;
    who->id[0] = (uint8_t)(peer + 1);
    who->groups = grouped;
    who->session = ours;
    who->lease_ms = 10000;
    pdi_session_move_to(node, peer,
                        &(pyddsi_endpoint){.kind = 4, .ip = {10, 9, 0, (uint8_t)peer}, .port = 7});
    CHECK(pdi_session_establish(node, peer, 0));
}

/* What waits to leave, of one kind; it is taken away. */
static uint32_t replies(struct pdi_node *node, enum pdi_reply_kind kind, struct pdi_reply *last)
{
    uint32_t count = 0;
    for (; node->reply_tail != node->reply_head; node->reply_tail++) {
        const struct pdi_reply *one = &node->replies[node->reply_tail % PDI_REPLIES_MAX];
        if (one->kind == kind) {
            count++;
            *last = *one;
        }
    }
    return count;
}

static uint8_t bytes[PYDDSI_PACKET_USUAL];

static void put(pyddsi_list *list, const char *text)
{
    pyddsi_fault fault;
    pyddsi_locator locator = {{(const uint8_t *)text, strlen(text)}};
    list->data = bytes;
    CHECK_EQ(pdi_encode_locator(&locator, bytes, sizeof bytes, &list->size, &fault), PYDDSI_OK);
    list->count++;
}

/* Peer 0 says this. */
static void told(struct pdi_node *node, const char *text)
{
    pyddsi_list list = {0};
    put(&list, text);
    pdi_gossip_input(node, 0, list, 0);
}

/* If it failed, a star would stay a star; or whoever is told of would be asked for ever. */
static void test_asked_some_times(void)
{
    struct pdi_node *node = make();
    struct pdi_reply last;
    uint32_t asked = 0;
    come(node, 0, false, true);
    (void)replies(node, PDI_REPLY_SCOUT, &last);
    pdi_gossip_tick(node);
    told(node, "aabb@udp/10.1.0.5:4711");
    told(node, "aabb@udp/10.1.0.5:4711");
    CHECK_EQ(replies(node, PDI_REPLY_SCOUT, &last), 1);
    CHECK(last.to.ip[3] == 5 && last.to.port == 4711);
    for (int i = 0; i < 1000; i++) {
        pdi_gossip_tick(node);
        asked += replies(node, PDI_REPLY_SCOUT, &last);
    }
    CHECK_EQ(asked, PDI_PROBE_TRIES - 1);
    CHECK_EQ(node->heard[0].id_size, 0);
    free(memory);
}

/* If it failed, one that lies could have us flood somebody, or fill our memory, or keep all that is true out for good. */
static void test_a_million_addresses(void)
{
    struct pdi_node *node = make();
    struct pdi_reply last;
    uint32_t most = 0;
    come(node, 0, false, true);
    (void)replies(node, PDI_REPLY_SCOUT, &last);
    for (uint32_t look = 0; look < 100; look++) {
        pdi_gossip_tick(node);
        for (uint32_t i = 0; i < 10000; i++) {
            char text[80], where[PDI_ENDPOINT_TEXT_MAX + 1];
            pyddsi_endpoint victim = place(look * 10000 + i);
            (void)pdi_endpoint_print(&victim, where, sizeof where);
            snprintf(text, sizeof text, "%08x@%s", (unsigned)(look * 10000 + i), where);
            told(node, text);
        }
        uint32_t asked = replies(node, PDI_REPLY_SCOUT, &last);
        most = asked > most ? asked : most;
    }
    CHECK(most > 0 && most <= PDI_PROBES_MAX);
    uint32_t looks = 0;
    bool heard = false;
    for (; looks < 100 && !heard; looks++) { /* they have their tries, and then there is room */
        pdi_gossip_tick(node);
        told(node, "aabb@udp/10.200.0.5:4711");
        for (; node->reply_tail != node->reply_head; node->reply_tail++) {
            heard = heard || node->replies[node->reply_tail % PDI_REPLIES_MAX].to.ip[1] == 200;
        }
    }
    CHECK(heard);
    free(memory);
}

/* If it failed, bytes that are no entry, or no address of a peer, would be taken for one, or be dropped without a line. */
static void test_what_is_no_entry(void)
{
    static const char *const bad[] = {"",
                                      "@",
                                      "aabb",
                                      "aabb@",
                                      "@udp/10.1.0.5:4711",
                                      "aab@udp/10.1.0.5:4711",
                                      "aAbb@udp/10.1.0.5:4711",
                                      "xxbb@udp/10.1.0.5:4711",
                                      "aabb@udp/10.1.0.5",
                                      "aabb@tcp/10.1.0.5",
                                      "aabb@tcp/0.0.0.0:4711",
                                      "aabb@tcp/127.0.0.1:4711",
                                      "aabb@tcp/[::1]:4711",
                                      "aabb@tcp/239.255.0.1:7447",
                                      "aabb@unix/a",
                                      "aabb@udp/10.1.0.5:0",
                                      "aabb@udp/0.0.0.0:4711",
                                      "aabb@udp/[::]:4711",
                                      "aabb@udp/255.255.255.255:4711",
                                      "aabb@udp/239.255.0.1:7447",
                                      "aabb@udp/[ff02::1]:7447",
                                      "00112233445566778899aabbccddeeff00@udp/10.1.0.5:4711"};
    struct pdi_node *node = make();
    struct pdi_reply last;
    pyddsi_drop drop;
    come(node, 0, false, true);
    (void)replies(node, PDI_REPLY_SCOUT, &last);
    pdi_gossip_tick(node);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t before = pdi_node_dropped(node, &drop);
        told(node, bad[i]);
        CHECK_EQ(pdi_node_dropped(node, &drop), before + 1);
    }
    CHECK_EQ(replies(node, PDI_REPLY_SCOUT, &last), 0);
    free(memory);
}

/* If it failed, nodes would ask themselves, or those whom they know; zhe would tell, or be told. */
static void test_who_is_left_out(void)
{
    struct pdi_node *node = make();
    struct pdi_reply last;
    come(node, 0, false, true);
    come(node, 1, false, true);
    come(node, 2, false, false); /* zhe */
    (void)replies(node, PDI_REPLY_SCOUT, &last);
    pdi_gossip_tick(node);
    told(node, "0200000000000000@udp/10.1.0.5:4711"); /* peer 1 */
    told(node, "0000000000000000@udp/10.1.0.5:4711"); /* we */
    told(node, "aabb@udp/10.9.0.1:7");                /* where peer 1 is */
    pyddsi_list list = {0};
    put(&list, "aabb@udp/10.1.0.5:4711");
    pdi_gossip_input(node, 2, list, 0);
    CHECK_EQ(replies(node, PDI_REPLY_SCOUT, &last), 0);
    node->tell_rounds = 3;
    pdi_gossip_tick(node);
    CHECK_EQ(replies(node, PDI_REPLY_TELL, &last), 2);
    CHECK(last.peer != 2);
    list = pdi_gossip_write(node, &last, bytes, sizeof bytes);
    CHECK_EQ(list.count, 1);
    free(memory);
}

/* If it failed, each session on a network with multicast would tell all others what they know. */
static void test_nothing_with_a_group(void)
{
    struct pdi_node *node = make();
    struct pdi_reply last;
    for (uint32_t peer = 0; peer < PEERS - 1; peer++) {
        come(node, peer, true, true);
    }
    CHECK_EQ(replies(node, PDI_REPLY_TELL, &last), 0);
    for (uint32_t i = 0; i < 20; i++) {
        pdi_gossip_tick(node);
    }
    CHECK_EQ(replies(node, PDI_REPLY_TELL, &last), 0);
    come(node, PEERS - 1, false, true);
    CHECK(replies(node, PDI_REPLY_TELL, &last) == PEERS);
    free(memory);
}

/* If it failed, one packet would be too large, or some peers would never be told of. */
static void test_as_many_as_fit(void)
{
    struct pdi_node *node = make();
    struct pdi_reply reply = {.kind = PDI_REPLY_TELL, .peer = 0};
    uint64_t seen = 0;
    for (uint32_t peer = 0; peer < PEERS; peer++) {
        come(node, peer, false, true);
    }
    for (reply.hash = 0; reply.hash < PEERS; reply.hash++) {
        pyddsi_list list = pdi_gossip_write(node, &reply, bytes, 150);
        pyddsi_locator locator;
        CHECK(list.size <= 150 && list.count > 1);
        while (pdi_list_locator(&list, &locator) == PYDDSI_OK) {
            seen |= UINT64_C(1) << ((locator.text.data[0] - '0') * 16 +
                                    (locator.text.data[1] -
                                     (locator.text.data[1] > '9' ? 'a' - 10 : '0')));
        }
    }
    CHECK_EQ(__builtin_popcountll(seen), PEERS - 1);
    free(memory);
}

/* If it failed, what a machine with two networks sends by the second would be a stranger's, and listed as a loss; or a
 * peer would keep an address that it has no more. */
static void test_places_of_a_peer(void)
{
    struct pdi_node *node = make();
    pyddsi_endpoint one = {.kind = 4, .ip = {10, 1, 0, 5}, .port = 4711};
    pyddsi_endpoint two = {.kind = 4, .ip = {10, 2, 0, 5}, .port = 4711};
    struct pdi_reply last;
    come(node, 0, true, true);
    CHECK_EQ(pdi_gossip_find(node, &one), PDI_NONE);
    pyddsi_list list = {0};
    put(&list, "0100000000000000@udp/10.1.0.5:4711");
    put(&list, "0100000000000000@udp/10.2.0.5:4711");
    pdi_gossip_input(node, 0, list, 0);
    CHECK_EQ(pdi_gossip_find(node, &one), 0);
    CHECK_EQ(pdi_gossip_find(node, &two), 0);
    told(node, "0100000000000000@udp/10.1.0.5:4711");
    CHECK_EQ(pdi_gossip_find(node, &one), 0);
    CHECK_EQ(pdi_gossip_find(node, &two), PDI_NONE);
    CHECK_EQ(replies(node, PDI_REPLY_SCOUT, &last), 0); /* it is there */
    pyddsi_endpoint own[2] = {one, two};
    pdi_node_places(node, own, 2);
    pdi_gossip_tick(node);
    CHECK_EQ(replies(node, PDI_REPLY_TELL, &last), 1);
    CHECK_EQ(pdi_gossip_write(node, &last, bytes, sizeof bytes).count, 2);
    free(memory);
}

/* Looks for peers, and answers how many are asked by datagrams and how many by connections. */
static uint32_t looked(struct pdi_node *node, uint32_t *calls)
{
    uint32_t scouts = 0;
    pdi_gossip_tick(node);
    for (; node->reply_tail != node->reply_head; node->reply_tail++) {
        const struct pdi_reply *one = &node->replies[node->reply_tail % PDI_REPLIES_MAX];
        bool stream = pdi_endpoint_is_stream(&one->to);
        *calls += one->kind == PDI_REPLY_SCOUT && stream;
        scouts += one->kind == PDI_REPLY_SCOUT && !stream;
    }
    return scouts;
}

/* If it failed, peers that connections alone can join would never meet, or each pair would get a connection beside datagrams that do;
 * and two that both listen would call each other at the same time. */
static void test_calls(void)
{
    struct pdi_reply last;
    for (int i = 0; i < 2; i++) {
        uint8_t own = i == 0 ? 0x10 : 0xf0; /* lower and higher than the peer's */
        struct pdi_node *node = make_calling(own);
        pyddsi_endpoint places[] = {place(1), place(1)};
        places[1].kind = PDI_ENDPOINT_TCP4;
        uint32_t calls = 0, scouts = 0, looks = 0;
        come(node, 0, false, true);
        pdi_node_places(node, places, 2);
        pdi_gossip_tick(node);
        (void)replies(node, PDI_REPLY_SCOUT, &last);
        told(node, "aabb@udp/10.1.0.5:4711");
        told(node, "aabb@tcp/10.1.0.5:7447");
        while (calls == 0 && looks < 100) {
            scouts += looked(node, &calls);
            looks++;
        }
        CHECK_EQ(calls, 1);
        CHECK(own < 0xaa ? scouts <= 3 : scouts >= 2);
        CHECK(own < 0xaa ? looks < 10 : looks > 4);
        for (looks = 0; looks < 1000; looks++) {
            (void)looked(node, &calls);
        }
        CHECK(calls > 1 && calls <= PDI_PROBE_TRIES);
        free(memory);
    }
}

/* If it failed, one that has datagrams alone would ask itself how to connect. */
static void test_none_to_call(void)
{
    struct pdi_node *node = make();
    uint32_t calls = 0;
    come(node, 0, false, true);
    told(node, "aabb@tcp/10.1.0.5:7447");
    CHECK_EQ(node->heard[0].id_size, 0);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(looked(node, &calls), 0);
    }
    CHECK_EQ(calls, 0);
    free(memory);
}

/* What is told to this peer has so many entries with this text in them. */
static int tells(struct pdi_node *node, uint32_t peer, const char *text)
{
    struct pdi_reply reply = {.kind = PDI_REPLY_TELL, .peer = peer};
    pyddsi_list list = pdi_gossip_write(node, &reply, bytes, sizeof bytes);
    pyddsi_locator locator;
    int count = 0;
    while (pdi_list_locator(&list, &locator) == PYDDSI_OK) {
        count += memmem(locator.text.data, locator.text.size, text, strlen(text)) != NULL;
    }
    return count;
}

/* If it failed, nobody would hear where a peer listens; or other machines would hear of an address that only its own can use. */
static void test_where_peers_listen(void)
{
    struct pdi_node *node = make_calling(9);
    pyddsi_endpoint places[] = {place(1),
                                place(1),
                                {.kind = 14, .ip = {127, 0, 0, 1}, .port = 9},
                                {.kind = 16, .ip = {[15] = 1}, .port = 9}};
    places[1].kind = PDI_ENDPOINT_TCP4;
    come(node, 0, false, true);
    come(node, 1, false, true);
    pdi_node_places(node, places, 4);
    told(node, "0100000000000000@tcp/10.1.0.5:7447");
    told(node, "0100000000000000@tcp/127.0.0.1:7447"); /* it is not here */
    CHECK_EQ(node->peers[0].places[1].kind, 0);
    CHECK_EQ(tells(node, 0, "@tcp/10.0.0.1:7000"), 1);
    CHECK_EQ(tells(node, 1, "0100000000000000@udp/10.9.0.0:7"), 1);
    CHECK_EQ(tells(node, 1, "0100000000000000@tcp/10.1.0.5:7447"), 1);
    CHECK_EQ(tells(node, 1, "tcp/127"), 0);
    CHECK_EQ(tells(node, 1, "tcp/[::1]"), 0);
    CHECK_EQ(pdi_gossip_find(node, &node->peers[0].places[0]), PDI_NONE);
    free(memory);
}

int main(void)
{
    test_calls();
    test_none_to_call();
    test_where_peers_listen();
    test_asked_some_times();
    test_a_million_addresses();
    test_what_is_no_entry();
    test_who_is_left_out();
    test_nothing_with_a_group();
    test_as_many_as_fit();
    test_places_of_a_peer();
    return test_result();
}
