/* proto/registry.h: what is declared, told, answered and matched, case by case. It is long because the cases share the
 * two registries and the peer made by hand that they are told with. */
#include "proto/registry.h"

#include "proto/registry_state.h"
#include "test.h"
#include "wire/encode.h"
#include "wire/list.h"

enum { MEMORY = 1 << 20, A = 0, B = 1, BODY = 2048 };

static _Alignas(64) uint8_t memory[2][MEMORY];
static struct pdi_registry *node[2];
static pyddsi_config config;
static const uint8_t ids[2] = {1, 2}; /* A is before B */

static const pyddsi_bytes nothing = {NULL, 0};

static pyddsi_bytes text_of(const char *text)
{
    return (pyddsi_bytes){(const uint8_t *)text, strlen(text)};
}

static void begin(void)
{
    config = (pyddsi_config){.seed = 9,
                             .rid_bits = 32,
                             .id_size = 1,
                             .features = PYDDSI_CAN_ALL,
                             .peers_max = 4,
                             .resources_max = 8,
                             .names_bytes = 8192,
                             .publishers_max = 8,
                             .subscribers_max = 8,
                             .remotes_max = 32,
                             .remotes_peer_max = 16,
                             .transaction_bytes = 1400,
                             .events_max = 32};
}

/* Makes one of the two with the configuration as it is. */
static void make(int at)
{
    struct pdi_carve carve = {.memory = memory[at]};
    config.id[0] = ids[at];
    CHECK(pdi_registry_size(&config) <= MEMORY);
    CHECK_EQ(pdi_registry_init(&node[at], &config, &carve), PYDDSI_OK);
}

/* Each knows the other as peer 1 (B, seen by A) and 0 (A, seen by B). */
static void meet(uint64_t commit_mode)
{
    pdi_registry_join(node[A], B, (pyddsi_bytes){&ids[B], 1}, node[B]->features, commit_mode);
    pdi_registry_join(node[B], A, (pyddsi_bytes){&ids[A], 1}, node[A]->features, commit_mode);
}

static void pair(void)
{
    begin();
    make(A);
    make(B);
    meet(0);
}

static pyddsi_list list_of(const uint8_t *body, size_t size)
{
    CHECK(body[0] < 0x80);
    return (pyddsi_list){.data = body + 1, .size = size - 1, .count = body[0]};
}

/* Moves everything that is to be told, both ways, until nothing is left; how many messages that took. */
static int pump(void)
{
    int count = 0;
    for (int idle = 0; idle < 2; count++) {
        int from = count % 2;
        uint8_t body[BODY], space;
        size_t size;
        bool pending = pdi_registry_pending(node[from], 1 - (uint32_t)from);
        int status = pdi_registry_output(node[from], 1 - (uint32_t)from, body,
                                         PDI_REGISTRY_ROOM_MIN, &size, &space);
        CHECK(pending || status == PYDDSI_AGAIN);
        idle = status == PYDDSI_OK ? 0 : idle + 1;
        if (status == PYDDSI_OK)
            CHECK_EQ(pdi_registry_input(node[1 - from], (uint32_t)from, space, false,
                                        list_of(body, size)),
                     PYDDSI_OK);
        if (count > 10000)
            break;
    }
    CHECK(count < 10000);
    return count - 2;
}

static int last_status;

static uint32_t declare(int at, struct pdi_wish wish)
{
    uint32_t handle = PDI_REGISTRY_NONE;
    int status = pdi_registry_declare(node[at], &wish, &handle, &last_status);
    CHECK_EQ(status, PYDDSI_OK);
    CHECK_EQ(last_status, PDI_STATUS_OK);
    return handle;
}

/* A wish that cannot be: the status that says why. */
static int refused(int at, struct pdi_wish wish)
{
    uint32_t handle = 77;
    int status = pdi_registry_declare(node[at], &wish, &handle, &last_status);
    CHECK_EQ(status, last_status == PDI_STATUS_SPACE ? PYDDSI_NO_SPACE : PYDDSI_BAD_ARGUMENT);
    CHECK_EQ(handle, 77);
    return last_status;
}

static struct pdi_wish resource(uint64_t id, const char *name)
{
    return (struct pdi_wish){.kind = PYDDSI_RESOURCE, .id = id, .text = text_of(name)};
}

static struct pdi_wish publication(uint64_t id)
{
    return (struct pdi_wish){.kind = PYDDSI_PUBLICATION, .id = id};
}

static struct pdi_wish subscription(uint64_t id)
{
    return (struct pdi_wish){.kind = PYDDSI_SUBSCRIPTION, .id = id, .mode = PYDDSI_PUSH};
}

static struct pdi_wish selection(uint64_t id, const char *query)
{
    return (struct pdi_wish){.kind = PYDDSI_SELECTION, .id = id, .text = text_of(query)};
}

/* The next change of this kind; those before it are taken out. */
static bool changed(int at, uint8_t kind, struct pdi_change *change)
{
    while (pdi_registry_change(node[at], change) == PYDDSI_OK) {
        if (change->kind == kind)
            return true;
    }
    return false;
}

static uint32_t links(int at, uint32_t handle)
{
    uint32_t count = 0;
    for (uint32_t link = pdi_registry_link_first(node[at], handle); link != PDI_REGISTRY_NONE;
         link = pdi_registry_link_next(node[at], link))
        count++;
    return count;
}

/* ---- a peer made by hand, which tells A as B what it likes */

static uint8_t hand[70000];
static size_t hand_size, hand_count;

static void say(pyddsi_declaration declaration)
{
    pyddsi_fault fault;
    CHECK_EQ(pdi_encode_declaration(&declaration, hand, sizeof hand, &hand_size, &fault),
             PYDDSI_OK);
    hand_count++;
}

static int send(bool committed)
{
    const pyddsi_list list = {.data = hand, .size = hand_size, .count = hand_count};
    int status = pdi_registry_input(node[A], B, 0, committed, list);
    hand_size = hand_count = 0;
    return status;
}

static void say_resource(uint64_t id, const char *name)
{
    say((pyddsi_declaration){.kind = PYDDSI_RESOURCE, .id = id, .uri = text_of(name)});
}

static void say_subscription(uint64_t id, uint64_t mode)
{
    say((pyddsi_declaration){.kind = PYDDSI_SUBSCRIPTION, .id = id, .mode = mode, .period = 9});
}

static void say_selection(uint64_t id, const char *query)
{
    say((pyddsi_declaration){.kind = PYDDSI_SELECTION, .id = id, .query = text_of(query)});
}

static void say_binding(uint64_t id, uint64_t new_id)
{
    say((pyddsi_declaration){
        .kind = PYDDSI_BINDING, .flags = PYDDSI_G, .id = id, .new_id = new_id});
}

static void say_forget(uint8_t kind, uint64_t id)
{
    say((pyddsi_declaration){.kind = kind, .id = id});
}

static void say_result(uint64_t commit, uint64_t status, uint64_t id)
{
    say((pyddsi_declaration){.kind = PYDDSI_RESULT, .commit = commit, .status = status, .id = id});
}

/* Commits what was said; the result, or 1000 if there is none. The id that it names is in answer_id. */
static uint64_t answer_id;

static uint64_t answer(void)
{
    uint8_t body[BODY], space;
    size_t size;
    pyddsi_declaration result;
    say((pyddsi_declaration){.kind = PYDDSI_COMMIT, .commit = 33});
    CHECK_EQ(send(false), PYDDSI_OK);
    if (pdi_registry_output(node[A], B, body, sizeof body, &size, &space) != PYDDSI_OK)
        return 1000;
    pyddsi_list list = list_of(body, size);
    CHECK_EQ(list.count, 1);
    CHECK_EQ(pdi_list_declaration(&list, &result), PYDDSI_OK);
    CHECK_EQ(result.kind, PYDDSI_RESULT);
    CHECK_EQ(result.commit, 33);
    answer_id = result.id;
    return result.status;
}

/* What A tells B next: how many declarations, the first of them in *first, the commit's number in *commit. */
static size_t told(pyddsi_declaration *first, uint64_t *commit)
{
    static uint8_t body[BODY];
    uint8_t space;
    size_t size;
    pyddsi_declaration declaration;
    if (pdi_registry_output(node[A], B, body, sizeof body, &size, &space) != PYDDSI_OK)
        return 0;
    pyddsi_list list = list_of(body, size);
    size_t count = list.count;
    pdi_list_declaration(&list, first);
    for (declaration = *first; list.count > 0;)
        pdi_list_declaration(&list, &declaration);
    *commit = declaration.kind == PYDDSI_COMMIT ? declaration.commit : 1000;
    return count;
}

/* A alone with a peer made by hand, nothing known. */
static void alone(void)
{
    begin();
    make(A);
    pdi_registry_join(node[A], B, (pyddsi_bytes){&ids[B], 1}, PYDDSI_CAN_ALL, 0);
}

/* ---- tests */

/* 002-93, 002-104, 002-105: if it failed, declarations would not leave together in one transaction with one commit, or
 * the first result would be the last one heard. */
static void test_one_round(void)
{
    uint32_t handles[6];
    pyddsi_declaration first;
    uint64_t commit;
    pair();
    for (uint32_t i = 0; i < 3; i++) {
        handles[i] = declare(A, publication(2 + 2 * i));
        handles[3 + i] = declare(A, subscription(2 + 2 * i));
        CHECK_EQ(pdi_registry_status(node[A], handles[i]), PDI_REGISTRY_PENDING);
    }
    CHECK_EQ(told(&first, &commit), 7);
    CHECK_EQ(first.kind, PYDDSI_PUBLICATION);
    CHECK_EQ(commit, 0);
    CHECK(!pdi_registry_pending(node[A], B)); /* the result is awaited */
    say_result(0, 0, 0);
    CHECK_EQ(send(false), PYDDSI_OK);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(pdi_registry_status(node[A], handles[i]), PDI_STATUS_OK);
    pair();
    for (int i = 0; i < 100; i++) {
        uint32_t handle = declare(A, subscription(2 + 2 * (uint64_t)i));
        pump();
        CHECK_EQ(pdi_registry_status(node[A], handle), PDI_STATUS_OK);
        CHECK_EQ(pdi_registry_usage(node[B]).remotes, 1);
        CHECK_EQ(pdi_registry_forget(node[A], handle), PYDDSI_OK);
        pump();
        CHECK_EQ(pdi_registry_usage(node[B]).remotes, 0);
    }
}

/* 002-119: if it failed, a peer would get more transactions than it can handle, or fewer than it asked for. */
static void test_commit_mode(void)
{
    pyddsi_declaration first;
    uint64_t commit;
    for (uint64_t mode = 0; mode < 4; mode++) {
        uint64_t wanted = mode == 0 ? 1 : mode;
        begin();
        make(A);
        pdi_registry_join(node[A], B, (pyddsi_bytes){&ids[B], 1}, PYDDSI_CAN_ALL, mode);
        for (uint64_t i = 0; i < wanted; i++) {
            declare(A, publication(2));
            CHECK_EQ(told(&first, &commit), 2);
            CHECK_EQ(commit, i);
        }
        declare(A, publication(2));
        CHECK_EQ(told(&first, &commit), 0);
        say_result(9, 0, 0); /* one that was never sent */
        CHECK_EQ(send(false), PYDDSI_OK);
        CHECK_EQ(told(&first, &commit), 0);
        say_result(wanted - 1, 0, 0); /* out of order */
        CHECK_EQ(send(false), PYDDSI_OK);
        CHECK_EQ(told(&first, &commit), 2);
        CHECK_EQ(commit, wanted);
    }
}

/* 002-118, 002-117: if it failed, a peer would not learn why its transaction was refused, or a part of it would have an
 * effect. */
static void test_statuses(void)
{
    alone();
    CHECK_EQ(answer(), PDI_STATUS_OK); /* an empty one */
    say_resource(2, "/a");
    say((pyddsi_declaration){.kind = PYDDSI_PUBLICATION, .id = 4});
    say_forget(PYDDSI_FORGET_RESOURCE, 40);
    say_forget(PYDDSI_FORGET_PUBLICATION, 40);
    say_forget(PYDDSI_FORGET_SUBSCRIPTION, 41);
    say_forget(PYDDSI_FORGET_SELECTION, 41);
    say_subscription(4, 1);
    CHECK_EQ(answer(), PDI_STATUS_OK);
    say_resource(2, "/a"); /* a repetition */
    CHECK_EQ(answer(), PDI_STATUS_OK);
    struct pdi_registry_usage before = pdi_registry_usage(node[A]);
    say_resource(6, "/fine");
    say_resource(2, "/b");
    CHECK_EQ(answer(), PDI_STATUS_CONFLICT);
    CHECK_EQ(answer_id, 2);
    const char *bad[] = {"", "a", "/a/", "/a//b", "/a b", "/$x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        say_resource(8, bad[i]);
        CHECK_EQ(answer(), PDI_STATUS_INVALID);
        CHECK_EQ(answer_id, 8);
    }
    const uint64_t wide[] = {0, 1, 3, UINT64_C(1) << 32, UINT64_C(1) << 56, UINT64_MAX - 1};
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        say_resource(6, "/fine");
        say_resource(wide[i], "/a");
        CHECK_EQ(answer(), PDI_STATUS_INVALID);
        CHECK_EQ(answer_id, wide[i]);
        say_subscription(wide[i], 1); /* 3 is a selection that is not known */
        CHECK_EQ(answer(), PDI_STATUS_INVALID);
        say_binding(wide[i], 5);
        CHECK_EQ(answer(), PDI_STATUS_INVALID);
    }
    say_selection(3, "a?{size >}");
    CHECK_EQ(answer(), PDI_STATUS_INVALID);
    say_selection(3, "a#nonsense");
    CHECK_EQ(answer(), PDI_STATUS_INVALID);
    say_selection(4, "a");
    CHECK_EQ(answer(), PDI_STATUS_INVALID);
    say((pyddsi_declaration){.kind = PYDDSI_SUBSCRIPTION, .id = 6, .mode = 3}); /* no period */
    CHECK_EQ(answer(), PDI_STATUS_INVALID);
    char name[16];
    for (int i = 0; i < 8; i++) { /* one may have half of the eight */
        snprintf(name, sizeof name, "/n%d", i);
        say_resource(100 + 2 * (uint64_t)i, name);
    }
    CHECK_EQ(answer(), PDI_STATUS_SPACE);
    CHECK_EQ(answer_id, 106);
    for (uint64_t i = 0; i < 16; i++)
        say_subscription(100 + 2 * i, 1);
    CHECK_EQ(answer(), PDI_STATUS_SPACE);
    CHECK_EQ(answer_id, 130);
    static char large[1000];
    memset(large, 'a', sizeof large - 1);
    large[0] = '/';
    say_resource(50, large);
    say_resource(52, large);
    say_resource(54, "/a");
    CHECK_EQ(answer(), PDI_STATUS_LARGE);
    CHECK_EQ(answer_id, 52);
    struct pdi_registry_usage after = pdi_registry_usage(node[A]);
    CHECK(memcmp(&before, &after, sizeof before) == 0);
    CHECK_EQ(pdi_registry_usage(node[A]).resources, 1);
    say_resource(50, large); /* after all that it still works */
    CHECK_EQ(answer(), PDI_STATUS_OK);
}

/* 002-118: if it failed, one that speaks as zhe does would promise what it does not do. */
static void test_unsupported(void)
{
    begin();
    config.features = 0;
    make(A);
    pdi_registry_join(node[A], B, (pyddsi_bytes){&ids[B], 1}, 0, 0);
    say_selection(3, "a");
    CHECK_EQ(answer(), PDI_STATUS_UNSUPPORTED);
    say_subscription(2, 2);
    CHECK_EQ(answer(), PDI_STATUS_UNSUPPORTED);
    CHECK_EQ(answer_id, 2);
    say_binding(3, 5);
    CHECK_EQ(answer(), PDI_STATUS_UNSUPPORTED);
    say_resource(2, "/a");
    const pyddsi_list list = {.data = hand, .size = hand_size, .count = hand_count};
    CHECK_EQ(pdi_registry_input(node[A], B, 3, true, list), PDI_REGISTRY_REFUSED);
    hand_size = hand_count = 0;
    CHECK_EQ(refused(A, selection(3, "a")), PDI_STATUS_UNSUPPORTED);
}

/* 002-16, 002-17, 002-107: if it failed, a selection, a binding or a tag would be accepted without an effect. */
static void test_selections(void)
{
    static const uint8_t dark[] = "{\"lum\": 0}", bright[] = "{\"lum\": 3}";
    struct pdi_wish wish = publication(2);
    pair();
    uint32_t handle = declare(A, wish);
    declare(A, resource(2, "/house/1/light"));
    declare(B, selection(9, "house/*/light#unreliable?{lum > 0}"));
    declare(B, (struct pdi_wish){.kind = PYDDSI_BINDING, .id = 9, .new_id = 101, .is_global = 1});
    uint32_t subscriber = declare(B, subscription(9));
    pump();
    CHECK_EQ(links(A, handle), 1);
    if (links(A, handle) == 1) {
        const struct pdi_remote *remote =
            pdi_registry_link_remote(node[A], pdi_registry_link_first(node[A], handle));
        CHECK_EQ(remote->reliability, PYDDSI_BEST_EFFORT);
        CHECK_EQ(remote->bound_id, 101);
        CHECK_EQ(remote->id, 9);
        CHECK(remote->predicate != NULL);
        CHECK(pdi_predicate_holds(remote->predicate, 2, (pyddsi_bytes){bright, sizeof bright - 1}));
        CHECK(!pdi_predicate_holds(remote->predicate, 2, (pyddsi_bytes){dark, sizeof dark - 1}));
    }
    CHECK(pdi_registry_predicate(node[B], subscriber) != NULL);
    uint32_t routed = 0;
    CHECK_EQ(pdi_registry_routes(node[B], 0, 2, 101, nothing, &routed, 1), 1);
    CHECK_EQ(routed, subscriber);
    CHECK_EQ(pdi_registry_routes(node[B], 0, 2, 9, nothing, &routed, 1), 1);
    CHECK_EQ(pdi_registry_routes(node[B], 0, 2, 0, nothing, &routed, 1), 1);
    CHECK_EQ(refused(B, selection(9, "other")), PDI_STATUS_CONFLICT);
    CHECK_EQ(refused(B, subscription(11)), PDI_STATUS_INVALID);
    alone();
    say_selection(3, "a");
    say_selection(5, "b");
    say_binding(3, 5);
    say_binding(5, 3); /* in a circle */
    say_subscription(3, 1);
    CHECK_EQ(answer(), PDI_STATUS_OK);
    say_binding(7, 5);
    CHECK_EQ(answer(), PDI_STATUS_INVALID);
    say_binding(3, 4);
    CHECK_EQ(answer(), PDI_STATUS_INVALID);
    say_selection(3, "zenoh://a"); /* the same in other words */
    CHECK_EQ(answer(), PDI_STATUS_OK);
    say_selection(3, "c");
    CHECK_EQ(answer(), PDI_STATUS_CONFLICT);
    say_forget(PYDDSI_FORGET_SELECTION, 3); /* takes the subscription with it */
    CHECK_EQ(answer(), PDI_STATUS_OK);
    CHECK_EQ(pdi_registry_usage(node[A]).remotes, 0);
    CHECK_EQ(pdi_registry_usage(node[A]).selections, 1);
}

/* 002-26: if it failed, data for one would reach two, or the first subscriber would lose it to the second. */
static void test_unicast(void)
{
    struct pdi_change change;
    struct pdi_wish wish = publication(2);
    wish.way = PYDDSI_WAY_UNICAST;
    pair();
    uint32_t handle = declare(A, wish);
    const uint8_t third = 3;
    pdi_registry_join(node[A], 2, (pyddsi_bytes){&third, 1}, PYDDSI_CAN_ALL, 0);
    say_subscription(2, 1);
    const pyddsi_list list = {.data = hand, .size = hand_size, .count = hand_count};
    CHECK_EQ(pdi_registry_input(node[A], 2, 0, true, list), PYDDSI_OK);
    hand_size = hand_count = 0;
    CHECK_EQ(links(A, handle), 1);
    uint32_t subscriber = declare(B, subscription(2));
    declare(B, subscription(4));
    pump();
    CHECK_EQ(pdi_registry_status(node[B], subscriber), PDI_STATUS_TAKEN);
    CHECK(changed(B, PYDDSI_REJECTED, &change));
    CHECK_EQ(change.handle, subscriber);
    CHECK_EQ(change.status, PDI_STATUS_TAKEN);
    CHECK_EQ(links(A, handle), 1);
    CHECK_EQ(pdi_registry_usage(node[A]).remotes, 2); /* the other subscription is in force */
    pdi_registry_leave(node[A], 2);
    CHECK_EQ(pdi_registry_forget(node[B], subscriber), PYDDSI_OK);
    subscriber = declare(B, subscription(2));
    pump();
    CHECK_EQ(pdi_registry_status(node[B], subscriber), PDI_STATUS_OK);
    CHECK_EQ(links(A, handle), 1);
    /* a name that appears makes no second one, and when the first goes the second gets its turn */
    pdi_registry_join(node[A], 2, (pyddsi_bytes){&third, 1}, PYDDSI_CAN_ALL, 0);
    say_resource(8, "/x");
    say_subscription(8, 1);
    const pyddsi_list more = {.data = hand, .size = hand_size, .count = hand_count};
    CHECK_EQ(pdi_registry_input(node[A], 2, 0, true, more), PYDDSI_OK);
    hand_size = hand_count = 0;
    declare(A, resource(2, "/*"));
    CHECK_EQ(links(A, handle), 1);
    CHECK_EQ(pdi_registry_forget(node[B], subscriber), PYDDSI_OK);
    pump();
    CHECK_EQ(links(A, handle), 1);
    CHECK_EQ(pdi_registry_link_remote(node[A], pdi_registry_link_first(node[A], handle))->peer, 2);
}

/* 002-19, 002-28, 002-29: if it failed, the quality of service of a definition would be ignored, or would change what
 * runs already. */
static void test_quality(void)
{
    struct pdi_change change;
    struct pdi_wish weak = resource(2, "/a");
    weak.reliability = PYDDSI_BEST_EFFORT;
    weak.durability = PYDDSI_TRANSIENT;
    pair();
    uint32_t definition = declare(A, weak);
    CHECK_EQ(pdi_registry_reliability(node[B], 0, 2), PYDDSI_BY_RESOURCE);
    pump();
    CHECK_EQ(pdi_registry_reliability(node[B], 0, 2), PYDDSI_BEST_EFFORT);
    CHECK_EQ(pdi_registry_durability(node[B], 0, 2), PYDDSI_TRANSIENT);
    CHECK_EQ(pdi_registry_reliability(node[A], 0, 2), PYDDSI_BEST_EFFORT);
    struct pdi_wish strong = publication(2); /* overrides, knowing it: no contradiction */
    strong.reliability = PYDDSI_RELIABLE;
    declare(B, strong);
    struct pdi_wish hears = subscription(2);
    hears.reliability = PYDDSI_BEST_EFFORT;
    declare(A, hears);
    pump();
    CHECK_EQ(pdi_registry_status(node[A], definition), PDI_STATUS_OK);
    pair();
    uint32_t runs = declare(B, publication(2)); /* reliable, for nobody says otherwise */
    pump();
    definition = declare(A, weak);
    pump();
    CHECK_EQ(pdi_registry_status(node[A], definition), PDI_STATUS_CONFLICT);
    CHECK(changed(B, PYDDSI_QOS_CONFLICT, &change));
    CHECK_EQ(change.handle, runs);
    CHECK(changed(A, PYDDSI_QOS_CONFLICT, &change));
    CHECK_EQ(change.handle, definition);
    CHECK_EQ(pdi_registry_name(node[B], 0, 2).size, 0);
    CHECK_EQ(refused(B, weak), PDI_STATUS_CONFLICT);
    CHECK(changed(B, PYDDSI_QOS_CONFLICT, &change));
    CHECK_EQ(change.handle, runs);
    struct pdi_wish agrees = resource(2, "/a");
    agrees.reliability = PYDDSI_RELIABLE;
    CHECK_EQ(pdi_registry_forget(node[A], definition), PYDDSI_OK);
    definition = declare(A, agrees);
    pump();
    CHECK_EQ(pdi_registry_status(node[A], definition), PDI_STATUS_OK);
    /* of two who define it the lower id counts */
    pair();
    declare(A, agrees);
    declare(B, weak);
    pump();
    CHECK_EQ(pdi_registry_reliability(node[A], 0, 2), PYDDSI_RELIABLE);
    CHECK_EQ(pdi_registry_reliability(node[B], 0, 2), PYDDSI_RELIABLE);
    CHECK_EQ(pdi_registry_durability(node[A], 0, 2), PYDDSI_TRANSIENT); /* only B says anything */
    /* a publication that knew of a definition contradicts nobody who repeats it */
    static const uint8_t transient[] = {8, 1, PYDDSI_TRANSIENT};
    const pyddsi_declaration lasting = {.kind = PYDDSI_RESOURCE,
                                        .flags = PYDDSI_P,
                                        .id = 2,
                                        .uri = text_of("/a"),
                                        .properties = {.data = transient, .size = 3, .count = 1}};
    alone();
    say(lasting);
    CHECK_EQ(answer(), PDI_STATUS_OK);
    declare(A, publication(2));
    const uint8_t third = 3;
    pdi_registry_join(node[A], 2, (pyddsi_bytes){&third, 1}, PYDDSI_CAN_ALL, 0);
    say(lasting);
    const pyddsi_list list = {.data = hand, .size = hand_size, .count = hand_count};
    CHECK_EQ(pdi_registry_input(node[A], 2, 0, true, list), PYDDSI_OK);
    hand_size = hand_count = 0;
}

/* 002-117: if it failed, what cannot be accepted would be taken for accepted. 002-100, 002-101: or an unfinished
 * transaction would leave a trace, also in the next session of the same peer. */
static void test_committed(void)
{
    struct pdi_registry_usage before, after;
    struct pdi_change change;
    alone();
    uint32_t handle = declare(A, publication(2));
    declare(A, resource(4, "/a")); /* our own, and we are before the other */
    while (pdi_registry_change(node[A], &change) == PYDDSI_OK)
        ;
    before = pdi_registry_usage(node[A]);
    say_subscription(2, 1);
    say_resource(4, "/b");
    CHECK_EQ(send(true), PDI_REGISTRY_REFUSED);
    say_resource(6, "/c");
    say_selection(9, "x?{a}");
    say_subscription(2, 1);
    CHECK_EQ(send(false), PYDDSI_OK); /* no commit follows */
    after = pdi_registry_usage(node[A]);
    CHECK(memcmp(&before, &after, sizeof before) == 0);
    CHECK_EQ(pdi_registry_change(node[A], &change), PYDDSI_END);
    CHECK_EQ(links(A, handle), 0);
    pdi_registry_leave(node[A], B);
    pdi_registry_join(node[A], B, (pyddsi_bytes){&ids[B], 1}, PYDDSI_CAN_ALL, 0);
    CHECK_EQ(answer(), PDI_STATUS_OK); /* what the last session left is gone */
    CHECK_EQ(links(A, handle), 0);
    say_subscription(2, 1);
    CHECK_EQ(send(true), PYDDSI_OK);
    CHECK_EQ(links(A, handle), 1);
    CHECK(changed(A, PYDDSI_MATCHED, &change));
    CHECK(!changed(A, PYDDSI_MATCHED, &change)); /* once */
}

/* 002-96, 002-102, 002-94: if it failed, a publication would not know its subscribers, or keep one that has gone. */
static void test_matching(void)
{
    struct pdi_change change;
    pair();
    declare(B, resource(4, "/house/**"));
    uint32_t first = declare(B, subscription(4)), second = declare(B, subscription(2));
    pump();
    uint32_t handle = declare(A, publication(2)); /* after the subscriptions */
    CHECK_EQ(links(A, handle), 1);
    uint32_t changes = pdi_registry_link_changes(node[A], handle);
    uint32_t named = declare(A, resource(2, "/house/x"));
    CHECK_EQ(links(A, handle), 2);
    CHECK(pdi_registry_link_changes(node[A], handle) != changes);
    CHECK(changed(A, PYDDSI_MATCHED, &change));
    CHECK(!changed(A, PYDDSI_MATCHED, &change)); /* one peer */
    CHECK_EQ(pdi_registry_forget(node[B], second), PYDDSI_OK);
    pump();
    CHECK_EQ(links(A, handle), 1);
    CHECK(!changed(A, PYDDSI_UNMATCHED, &change));
    CHECK_EQ(pdi_registry_forget(node[A], named), PYDDSI_OK);
    CHECK_EQ(links(A, handle), 0);
    CHECK(changed(A, PYDDSI_UNMATCHED, &change));
    CHECK_EQ(change.handle, handle);
    CHECK_EQ(change.peer, B);
    named = declare(A, resource(2, "/house/x"));
    CHECK_EQ(links(A, handle), 1);
    CHECK_EQ(pdi_registry_forget(node[B], first), PYDDSI_OK);
    pump();
    CHECK_EQ(links(A, handle), 0);
    CHECK_EQ(pdi_registry_forget(node[A], handle), PYDDSI_OK); /* 002-33 */
    CHECK_EQ(pdi_registry_link_first(node[A], handle), PDI_REGISTRY_NONE);
    CHECK_EQ(pdi_registry_forget(node[A], handle), PYDDSI_BAD_ARGUMENT);
}

/* 002-106: if it failed, only one of several subscriptions would get its samples, or the first one closed would end
 * them all. */
static void test_same(void)
{
    uint32_t routed[4];
    pair();
    uint32_t handle = declare(A, publication(2));
    uint32_t one = declare(B, subscription(2)), two = declare(B, subscription(2));
    CHECK_EQ(pdi_registry_routes(node[B], 0, 2, 0, nothing, routed, 4), 2);
    CHECK_EQ(pdi_registry_routes(node[B], 0, 2, 0, nothing, routed, 1), 2);
    pump();
    CHECK_EQ(links(A, handle), 1);
    CHECK_EQ(pdi_registry_forget(node[B], one), PYDDSI_OK);
    pump();
    CHECK_EQ(links(A, handle), 1);
    struct pdi_wish other = subscription(2);
    other.mode = PYDDSI_PULL_MODE;
    CHECK_EQ(refused(B, other), PDI_STATUS_CONFLICT);
    CHECK_EQ(pdi_registry_forget(node[B], two), PYDDSI_OK);
    CHECK_EQ(pdi_registry_routes(node[B], 0, 2, 0, nothing, routed, 4), 0);
    pump();
    CHECK_EQ(links(A, handle), 0);
    /* the second, not yet told, takes over from the first, which was */
    one = declare(B, subscription(2));
    pump();
    two = declare(B, subscription(2));
    CHECK_EQ(pdi_registry_forget(node[B], one), PYDDSI_OK);
    CHECK_EQ(pdi_registry_status(node[B], two), PDI_STATUS_OK);
    CHECK_EQ(pdi_registry_forget(node[B], two), PYDDSI_OK);
    pump();
    CHECK_EQ(links(A, handle), 0);
}

/* If it failed, a sample would reach somebody who did not ask for it, or not reach who did. */
static void test_routes(void)
{
    uint32_t routed[4];
    pair();
    uint64_t changes = pdi_registry_route_changes(node[A]);
    uint32_t exact = declare(A, subscription(2));
    declare(A, resource(2, "/a/b"));
    uint32_t wild = declare(A, subscription(4));
    declare(A, resource(4, "/a/*"));
    struct pdi_wish other = subscription(2);
    other.space = 7;
    uint32_t apart = declare(A, other); /* 002-126 */
    CHECK(pdi_registry_route_changes(node[A]) > changes);
    CHECK_EQ(pdi_registry_routes(node[A], 0, 2, 0, nothing, routed, 4), 2);
    CHECK_EQ(pdi_registry_routes(node[A], 0, 4, 0, nothing, routed, 4), 2);
    CHECK_EQ(pdi_registry_routes(node[A], 0, 6, 0, nothing, routed, 4), 0);
    CHECK_EQ(pdi_registry_routes(node[A], 0, 2, 4, nothing, routed, 4), 1); /* it says for whom */
    CHECK_EQ(routed[0], wild);
    CHECK_EQ(pdi_registry_routes(node[A], 0, 2, 6, nothing, routed, 4), 2); /* for nobody we know */
    CHECK_EQ(pdi_registry_routes(node[A], 0, 0, 0, text_of("/a/c"), routed, 4), 1);
    CHECK_EQ(pdi_registry_routes(node[A], 0, 0, 0, text_of("/*/b"), routed, 4), 2);
    CHECK_EQ(pdi_registry_routes(node[A], 0, 0, 0, nothing, routed, 4), 0);
    CHECK_EQ(pdi_registry_routes(node[A], 7, 2, 0, nothing, routed, 4), 1);
    CHECK_EQ(routed[0], apart);
    CHECK_EQ(pdi_registry_routes(node[A], 7, 0, 0, text_of("/a/b"), routed, 4), 0);
    changes = pdi_registry_route_changes(node[A]);
    CHECK_EQ(pdi_registry_forget(node[A], exact), PYDDSI_OK);
    CHECK(pdi_registry_route_changes(node[A]) > changes);
    CHECK_EQ(pdi_registry_routes(node[A], 0, 2, 0, nothing, routed, 4), 1);
}

/* 002-126: if it failed, the same id in two spaces would meet. */
static void test_spaces(void)
{
    struct pdi_wish wish = publication(2), there = subscription(2);
    there.space = 200;
    pair();
    uint32_t here = declare(A, wish);
    wish.space = 200;
    uint32_t apart = declare(A, wish);
    declare(B, there);
    declare(B, resource(2, "/a"));
    struct pdi_wish other = resource(2, "/b");
    other.space = 200;
    declare(B, other);
    pump();
    CHECK_EQ(links(A, here), 0);
    CHECK_EQ(links(A, apart), 1);
    CHECK_EQ(pdi_registry_name(node[A], 200, 2).data[1], 'b');
    CHECK_EQ(pdi_registry_name(node[A], 0, 2).data[1], 'a');
}

/* 002-3, 002-37: if it failed, two names for one id would not end with an answer, or a known name could be declared
 * otherwise. */
static void test_conflict(void)
{
    struct pdi_change change;
    pair();
    uint32_t winner = declare(A, resource(2, "/a")), loser = declare(B, resource(2, "/b"));
    uint32_t beside = declare(B, resource(4, "/c"));
    pump();
    CHECK_EQ(pdi_registry_status(node[A], winner), PDI_STATUS_OK);
    CHECK_EQ(pdi_registry_status(node[B], loser), PDI_STATUS_CONFLICT);
    CHECK_EQ(pdi_registry_status(node[B], beside), PDI_STATUS_OK);
    CHECK(changed(B, PYDDSI_DECLARED, &change));
    CHECK_EQ(change.handle, loser);
    CHECK_EQ(change.status, PDI_STATUS_CONFLICT);
    CHECK_EQ(pdi_registry_name(node[B], 0, 2).data[1], 'a');
    CHECK_EQ(refused(B, resource(2, "/b")), PDI_STATUS_CONFLICT);
    CHECK_EQ(pdi_registry_forget(node[A], winner), PYDDSI_OK); /* 002-34: then it is free */
    pump();
    declare(B, resource(2, "/b"));
    pump();
    CHECK_EQ(pdi_registry_name(node[A], 0, 2).data[1], 'b');
    /* whoever is established does not give way to a newcomer, whatever the ids */
    pair();
    pdi_registry_leave(node[A], B);
    pdi_registry_leave(node[B], A);
    const uint8_t third = 3;
    pdi_registry_join(node[B], 2, (pyddsi_bytes){&third, 1}, PYDDSI_CAN_ALL, 0);
    uint32_t old = declare(B, resource(2, "/b"));
    uint8_t body[BODY], space;
    size_t size;
    CHECK_EQ(pdi_registry_output(node[B], 2, body, sizeof body, &size, &space), PYDDSI_OK);
    say_result(0, 0, 0);
    const pyddsi_list list = {.data = hand, .size = hand_size, .count = hand_count};
    CHECK_EQ(pdi_registry_input(node[B], 2, 0, false, list), PYDDSI_OK);
    hand_size = hand_count = 0;
    uint32_t late = declare(A, resource(2, "/a"));
    meet(0);
    pump();
    CHECK_EQ(pdi_registry_status(node[B], old), PDI_STATUS_OK);
    CHECK_EQ(pdi_registry_status(node[A], late), PDI_STATUS_CONFLICT);
    CHECK_EQ(pdi_registry_name(node[A], 0, 2).data[1], 'b');
    /* nor is it taken back from those who have it because somebody refuses it */
    pyddsi_declaration first;
    uint64_t commit;
    alone();
    old = declare(A, resource(2, "/a"));
    CHECK_EQ(told(&first, &commit), 2);
    say_result(commit, 0, 0);
    CHECK_EQ(send(false), PYDDSI_OK);
    pdi_registry_leave(node[A], 2);
    pdi_registry_join(node[A], 2, (pyddsi_bytes){&third, 1}, PYDDSI_CAN_ALL, 0);
    CHECK_EQ(pdi_registry_output(node[A], 2, body, sizeof body, &size, &space), PYDDSI_OK);
    say_result(0, PDI_STATUS_CONFLICT, 2);
    const pyddsi_list no = {.data = hand, .size = hand_size, .count = hand_count};
    CHECK_EQ(pdi_registry_input(node[A], 2, 0, false, no), PYDDSI_OK);
    hand_size = hand_count = 0;
    CHECK_EQ(pdi_registry_status(node[A], old), PDI_STATUS_CONFLICT);
    CHECK_EQ(pdi_registry_name(node[A], 0, 2).size, 2);
    CHECK_EQ(told(&first, &commit), 0);
    pdi_registry_leave(node[A], 2);
    CHECK_EQ(pdi_registry_status(node[A], old), PDI_STATUS_OK);
}

/* If it failed, a peer would be told to try again what cannot succeed, or would hear of another fault than the first. */
static void test_first_fault(void)
{
    pyddsi_declaration first;
    uint64_t commit;
    alone();
    declare(A, resource(2, "/a")); /* not settled */
    CHECK_EQ(told(&first, &commit), 2);
    say_resource(2, "/b");
    CHECK_EQ(answer(), PDI_STATUS_RETRY);
    CHECK_EQ(answer_id, 2);
    say_resource(2, "/b");
    say_resource(4, "bad");
    say_resource(6, "worse");
    CHECK_EQ(answer(), PDI_STATUS_INVALID);
    CHECK_EQ(answer_id, 4);
    say_subscription(9, 1); /* judged later, but it stands first */
    say_resource(4, "bad");
    say_resource(2, "/b");
    CHECK_EQ(answer(), PDI_STATUS_INVALID);
    CHECK_EQ(answer_id, 9);
    node[A]->rounds_max = 5; /* 002-3: nobody is told to try again for ever */
    for (int i = 0; i < 12; i++) {
        say_resource(2, "/b");
        CHECK_EQ(answer(), i % 6 < 5 ? PDI_STATUS_RETRY : PDI_STATUS_CONFLICT);
    }
    /* a forget before the declaration of the same id is void, one behind it is not */
    say_resource(8, "/c");
    say_subscription(8, 1);
    CHECK_EQ(answer(), PDI_STATUS_OK);
    say_forget(PYDDSI_FORGET_RESOURCE, 8);
    say_forget(PYDDSI_FORGET_SUBSCRIPTION, 8);
    say_resource(8, "/c");
    say_subscription(8, 1);
    CHECK_EQ(answer(), PDI_STATUS_OK);
    CHECK_EQ(pdi_registry_usage(node[A]).resources, 2);
    CHECK_EQ(pdi_registry_usage(node[A]).remotes, 1);
    say_resource(8, "/c");
    say_subscription(8, 1);
    say_forget(PYDDSI_FORGET_RESOURCE, 8);
    say_forget(PYDDSI_FORGET_SUBSCRIPTION, 8);
    CHECK_EQ(answer(), PDI_STATUS_OK);
    CHECK_EQ(pdi_registry_usage(node[A]).resources, 1);
    CHECK_EQ(pdi_registry_usage(node[A]).remotes, 0);
    for (uint32_t bytes = 11; bytes <= 12; bytes++) { /* each takes three, and one for its space */
        begin();
        config.transaction_bytes = bytes;
        make(A);
        pdi_registry_join(node[A], B, (pyddsi_bytes){&ids[B], 1}, PYDDSI_CAN_ALL, 0);
        for (uint64_t id = 2; id <= 6; id += 2)
            say_subscription(id, 1);
        CHECK_EQ(answer(), bytes == 12 ? PDI_STATUS_OK : PDI_STATUS_LARGE);
    }
}

/* If it failed, a bad declaration would take good ones with it, or a peer that always says no would be asked for ever. */
static void test_refusals(void)
{
    pyddsi_declaration first;
    uint64_t commit;
    for (uint64_t status = 1; status < 255; status++) {
        int rounds = 0;
        alone();
        node[A]->rounds_max = 20;
        for (uint64_t i = 0; i < 4; i++) {
            declare(A, resource(2 + 2 * i, "/a"));
            declare(A, subscription(2 + 2 * i));
            declare(A, publication(2 + 2 * i));
        }
        while (told(&first, &commit) > 0 && rounds++ < 1000) {
            say_result(commit, status, 2 + 2 * (uint64_t)(rounds % 6));
            CHECK_EQ(send(false), PYDDSI_OK);
        }
        CHECK(rounds < 1000);
        for (uint32_t at = node[A]->all.first; at != PDI_CHAIN_END;
             at = pdi_chain_next(&node[A]->lane_all, at))
            CHECK(pdi_registry_status(node[A], pdi_local_handle(node[A], at)) !=
                  PDI_REGISTRY_PENDING);
    }
    /* the one that is named is left out, the others are told again */
    alone();
    uint32_t good = declare(A, subscription(2)), bad = declare(A, subscription(4));
    CHECK_EQ(told(&first, &commit), 3);
    say_result(commit, PDI_STATUS_OTHER, 4);
    CHECK_EQ(send(false), PYDDSI_OK);
    CHECK_EQ(told(&first, &commit), 2);
    CHECK_EQ(first.id, 2);
    say_result(commit, 0, 0);
    CHECK_EQ(send(false), PYDDSI_OK);
    CHECK_EQ(pdi_registry_status(node[A], good), PDI_STATUS_OK);
    CHECK_EQ(pdi_registry_status(node[A], bad), PDI_STATUS_OTHER);
    CHECK_EQ(told(&first, &commit), 0);
    /* two of one id: alone each is clear, or the status says which one */
    alone();
    good = declare(A, resource(2, "/a"));
    bad = declare(A, subscription(2));
    CHECK_EQ(told(&first, &commit), 3);
    say_result(commit, PDI_STATUS_SPACE, 2);
    CHECK_EQ(send(false), PYDDSI_OK);
    CHECK_EQ(told(&first, &commit), 2);
    CHECK_EQ(first.kind, PYDDSI_RESOURCE);
    say_result(commit, 0, 0);
    CHECK_EQ(send(false), PYDDSI_OK);
    CHECK_EQ(told(&first, &commit), 2);
    say_result(commit, PDI_STATUS_SPACE, 2);
    CHECK_EQ(send(false), PYDDSI_OK);
    CHECK_EQ(pdi_registry_status(node[A], good), PDI_STATUS_OK);
    CHECK_EQ(pdi_registry_status(node[A], bad), PDI_STATUS_SPACE);
    alone();
    good = declare(A, resource(2, "/a"));
    bad = declare(A, subscription(2));
    CHECK_EQ(told(&first, &commit), 3);
    say_result(commit, PDI_STATUS_TAKEN, 2);
    CHECK_EQ(send(false), PYDDSI_OK);
    CHECK_EQ(pdi_registry_status(node[A], good), PDI_REGISTRY_PENDING);
    CHECK_EQ(pdi_registry_status(node[A], bad), PDI_STATUS_TAKEN);
}

/* 002-36: if it failed, an id that is forgotten and declared anew would keep what it was, or lose what it is. */
static void test_anew(void)
{
    pyddsi_declaration first;
    uint64_t commit;
    pair();
    uint32_t old = declare(A, resource(2, "/a"));
    pump();
    CHECK_EQ(pdi_registry_forget(node[A], old), PYDDSI_OK);
    uint32_t anew = declare(A, resource(2, "/b"));
    pump();
    CHECK_EQ(pdi_registry_status(node[A], anew), PDI_STATUS_OK);
    CHECK_EQ(pdi_registry_name(node[B], 0, 2).data[1], 'b');
    /* whatever the peer could handle: forgets go alone, and nothing follows until they are settled */
    begin();
    make(A);
    pdi_registry_join(node[A], B, (pyddsi_bytes){&ids[B], 1}, PYDDSI_CAN_ALL, 4);
    old = declare(A, subscription(2));
    CHECK_EQ(told(&first, &commit), 2);
    CHECK_EQ(pdi_registry_forget(node[A], old), PYDDSI_OK);
    anew = declare(A, subscription(2));
    CHECK_EQ(told(&first, &commit), 0); /* the first one may have been accepted or not */
    say_result(0, 0, 0);
    CHECK_EQ(send(false), PYDDSI_OK);
    CHECK_EQ(told(&first, &commit), 2);
    CHECK_EQ(first.kind, PYDDSI_FORGET_SUBSCRIPTION);
    CHECK_EQ(told(&first, &commit), 0);
    say_result(1, 0, 0);
    CHECK_EQ(send(false), PYDDSI_OK);
    CHECK_EQ(told(&first, &commit), 2);
    CHECK_EQ(first.kind, PYDDSI_SUBSCRIPTION);
}

/* 002-2: if it failed, a contest would be asked about without a pause, or one contested declaration would hold up the
 * others, or others the contested one. */
static void test_contested(void)
{
    pyddsi_declaration first;
    uint64_t commit;
    const uint8_t third = 3;
    alone();
    pdi_registry_join(node[A], 2, (pyddsi_bytes){&third, 1}, PYDDSI_CAN_ALL, 0);
    declare(A, resource(2, "/a"));
    declare(A, resource(4, "/b"));
    uint8_t body[BODY], space;
    size_t size;
    CHECK_EQ(pdi_registry_output(node[A], 2, body, sizeof body, &size, &space), PYDDSI_OK);
    CHECK_EQ(told(&first, &commit), 3);
    say_result(commit, PDI_STATUS_RETRY, 2);
    CHECK_EQ(send(false), PYDDSI_OK);
    CHECK_EQ(told(&first, &commit), 2); /* the other one goes on alone */
    CHECK_EQ(first.id, 4);
    say_result(commit, 0, 0);
    CHECK_EQ(send(false), PYDDSI_OK);
    CHECK_EQ(told(&first, &commit), 0); /* the third one owes an answer */
    CHECK(!pdi_registry_pending(node[A], B));
    say_result(0, 0, 0);
    const pyddsi_list list = {.data = hand, .size = hand_size, .count = hand_count};
    CHECK_EQ(pdi_registry_input(node[A], 2, 0, false, list), PYDDSI_OK);
    hand_size = hand_count = 0;
    CHECK(pdi_registry_pending(node[A], B));
    for (int i = 0; i < 6; i++) { /* with news all the time, it gets its turn */
        if (i % 2 == 0)
            declare(A, subscription(2));
        CHECK_EQ(told(&first, &commit), 2);
        CHECK_EQ(first.kind, i % 2 == 0 ? PYDDSI_RESOURCE : PYDDSI_SUBSCRIPTION);
        say_result(commit, i % 2 == 0 ? PDI_STATUS_RETRY : PDI_STATUS_OK, 2);
        CHECK_EQ(send(false), PYDDSI_OK);
        CHECK(pdi_registry_pending(node[A], B));
    }
}

/* 002-36: if it failed, a newcomer would hear of what is gone. 002-22: the part that is told. */
static void test_newcomer(void)
{
    pyddsi_declaration first;
    uint64_t commit;
    begin();
    make(A);
    uint32_t gone = declare(A, subscription(2));
    declare(A, subscription(4));
    CHECK_EQ(pdi_registry_forget(node[A], gone), PYDDSI_OK);
    pdi_registry_join(node[A], B, (pyddsi_bytes){&ids[B], 1}, PYDDSI_CAN_ALL, 0);
    gone = declare(A, subscription(6));
    CHECK_EQ(pdi_registry_forget(node[A], gone), PYDDSI_OK); /* never told, never taken back */
    CHECK_EQ(told(&first, &commit), 2);
    CHECK_EQ(first.kind, PYDDSI_SUBSCRIPTION);
    CHECK_EQ(first.id, 4);
    say_result(commit, 0, 0);
    CHECK_EQ(send(false), PYDDSI_OK);
    CHECK_EQ(told(&first, &commit), 0);
    CHECK_EQ(pdi_registry_usage(node[A]).locals, 1);
    /* who leaves without an answer is not waited for, and the application hears of it */
    struct pdi_change change;
    while (pdi_registry_change(node[A], &change) == PYDDSI_OK)
        ;
    uint32_t handle = declare(A, subscription(8));
    CHECK_EQ(told(&first, &commit), 2);
    CHECK(!changed(A, PYDDSI_DECLARED, &change));
    pdi_registry_leave(node[A], B);
    CHECK_EQ(pdi_registry_status(node[A], handle), PDI_STATUS_OK);
    CHECK(changed(A, PYDDSI_DECLARED, &change));
    CHECK_EQ(change.handle, handle);
}

/* Part C 3: if it failed, a peer that announces nothing would be told what kills it. */
static void test_plain_peer(void)
{
    pyddsi_declaration first;
    uint64_t commit;
    begin();
    make(A);
    pdi_registry_join(node[A], B, (pyddsi_bytes){&ids[B], 1}, 0, 0);
    struct pdi_wish pulls = subscription(2), apart = subscription(4);
    pulls.mode = PYDDSI_PULL_MODE;
    apart.space = 2;
    declare(A, selection(3, "a"));
    declare(A, subscription(3));
    declare(A, (struct pdi_wish){.kind = PYDDSI_BINDING, .id = 3, .new_id = 5});
    declare(A, pulls);
    declare(A, apart);
    CHECK_EQ(told(&first, &commit), 0);
    declare(A, subscription(8));
    CHECK_EQ(told(&first, &commit), 2);
    CHECK_EQ(first.id, 8);
}

/* If it failed, a zhe would be told numbers that end its session for ever, or would go without numbers that it takes. */
static void test_widths(void)
{
    static const uint64_t widths[] = {UINT8_MAX, UINT16_MAX, UINT32_MAX};
    static const uint8_t other = 77;
    pyddsi_declaration first;
    uint64_t commit;
    for (size_t i = 0; i < 3; i++) {
        begin();
        config.rid_bits = 56;
        make(A);
        declare(A, subscription(8));
        declare(A, subscription(widths[i] + 1));
        for (int session = 0; session < 2; session++) { /* it owes an answer, and begins anew */
            pdi_registry_join(node[A], B, (pyddsi_bytes){&ids[B], 1}, 0, 0);
            CHECK_EQ(pdi_registry_id_most(node[A], B), UINT64_MAX);
            CHECK_EQ(told(&first, &commit), 3);
            pdi_registry_broke(node[A], B);
            pdi_registry_leave(node[A], B);
        }
        pdi_registry_join(node[A], 2, (pyddsi_bytes){&other, 1}, 0, 0);
        CHECK_EQ(pdi_registry_id_most(node[A], 2), UINT64_MAX); /* of one peer alone */
        pdi_registry_join(node[A], 0, (pyddsi_bytes){&ids[B], 1}, 0, 0);
        CHECK_EQ(pdi_registry_id_most(node[A], 0), widths[i]);
        pdi_registry_leave(node[A], 0);
        pdi_registry_join(node[A], B, (pyddsi_bytes){&ids[B], 1}, 0, 0); /* in whatever slot */
        CHECK_EQ(pdi_registry_id_most(node[A], B), widths[i]);
        CHECK_EQ(told(&first, &commit), 2);
        CHECK_EQ(first.id, 8);
        say_subscription(widths[i] + 3, 1); /* it shows that it can read such */
        CHECK_EQ(send(true), PYDDSI_OK);
        CHECK_EQ(pdi_registry_id_most(node[A], B), UINT64_MAX);
    }
}

/* 002-11: if it failed, another mode would stand on the wire than was asked for. */
static void test_modes(void)
{
    for (uint8_t mode = 1; mode <= 5; mode++) {
        struct pdi_wish wish = subscription(2);
        pyddsi_declaration first;
        uint64_t commit;
        wish.mode = mode;
        wish.origin_ms = 5;
        wish.period_ms = 70;
        wish.duration_ms = 69;
        alone();
        declare(A, wish);
        CHECK_EQ(told(&first, &commit), 2);
        CHECK_EQ(first.mode, mode);
        bool periodic = mode == PYDDSI_PERIODIC_PUSH || mode == PYDDSI_PERIODIC_PULL;
        CHECK_EQ(first.duration, periodic ? 69 : 0);
        wish.id = 4;
        wish.duration_ms = 70;
        CHECK_EQ(periodic ? refused(A, wish) : PDI_STATUS_INVALID, PDI_STATUS_INVALID);
    }
    struct pdi_wish wish = subscription(2);
    wish.mode = 6;
    wish.id = 6;
    CHECK_EQ(refused(A, wish), PDI_STATUS_INVALID);
    pair(); /* a repetition in another mode changes it */
    uint32_t handle = declare(A, publication(2));
    say_subscription(2, 1);
    CHECK_EQ(send(true), PYDDSI_OK);
    uint32_t changes = pdi_registry_link_changes(node[A], handle);
    const struct pdi_remote *remote =
        pdi_registry_link_remote(node[A], pdi_registry_link_first(node[A], handle));
    uint32_t serial = remote->serial;
    say_subscription(2, 5);
    CHECK_EQ(send(true), PYDDSI_OK);
    CHECK_EQ(remote->mode, 5);
    CHECK(remote->serial != serial);
    CHECK(pdi_registry_link_changes(node[A], handle) != changes);
}

/* If it failed, our own limits would not hold, or a slot would be lost. */
static void test_limits(void)
{
    uint32_t handles[8], handle;
    int status;
    pair();
    for (int round = 0; round < 300; round++) {
        for (uint32_t i = 0; i < 8; i++)
            handles[i] = declare(A, publication(2 + 2 * (uint64_t)i));
        CHECK_EQ(refused(A, publication(40)), PDI_STATUS_SPACE);
        for (uint32_t i = 0; i < 8; i++)
            CHECK_EQ(pdi_registry_forget(node[A], handles[i]), PYDDSI_OK);
        CHECK_EQ(pdi_registry_forget(node[A], handles[0]), PYDDSI_BAD_ARGUMENT);
        CHECK_EQ(pdi_registry_status(node[A], handles[0]), PYDDSI_BAD_ARGUMENT);
        CHECK_EQ(pdi_registry_link_changes(node[A], handles[0]), 0);
        if (round % 7 == 0)
            pump();
    }
    pump();
    CHECK_EQ(pdi_registry_usage(node[A]).locals, 0);
    begin(); /* all slots wait for peers that do not answer */
    config.resources_max = config.publishers_max = config.subscribers_max = 1;
    config.peers_max = 16;
    make(A);
    struct pdi_wish wish = publication(2);
    uint32_t peer = 0;
    for (; peer < 16; peer++) {
        uint8_t body[BODY], space;
        size_t size;
        pdi_registry_join(node[A], peer, (pyddsi_bytes){&ids[B], 1}, PYDDSI_CAN_ALL, 0);
        if (pdi_registry_declare(node[A], &wish, &handle, &status) != PYDDSI_OK)
            break;
        CHECK_EQ(pdi_registry_output(node[A], peer, body, sizeof body, &size, &space), PYDDSI_OK);
        CHECK_EQ(pdi_registry_forget(node[A], handle), PYDDSI_OK);
        CHECK_EQ(pdi_registry_usage(node[A]).locals, peer + 1);
    }
    CHECK_EQ(peer, 10);
    CHECK_EQ(pdi_registry_declare(node[A], &wish, &handle, &status), PYDDSI_AGAIN);
    for (uint32_t i = 0; i < 16; i++)
        pdi_registry_leave(node[A], i);
    CHECK_EQ(pdi_registry_usage(node[A]).locals, 0);
    declare(A, wish);
    begin();
    config.peers_max = PYDDSI_PEERS_MAX + 1;
    struct pdi_carve carve = {0};
    struct pdi_registry *none;
    CHECK_EQ(pdi_registry_init(&none, &config, &carve), PYDDSI_BAD_ARGUMENT);
    begin();
    config.resources_max = UINT32_C(1) << 31; /* twice that is nothing in 32 bits */
    CHECK_EQ(pdi_registry_init(&none, &config, &carve), PYDDSI_BAD_ARGUMENT);
    begin();
    config.remotes_max = UINT32_C(1) << 29;
    CHECK_EQ(pdi_registry_init(&none, &config, &carve), PYDDSI_BAD_ARGUMENT);
    begin();
    CHECK_EQ(pdi_registry_init(NULL, &config, &carve), PYDDSI_OK); /* only measures */
}

/* If it failed, a peer that means harm would take more than its share, or break what belongs to others. */
static void test_hostile(void)
{
    static char name[1025];
    struct pdi_registry_usage usage;
    alone();
    uint32_t handle = declare(A, publication(2));
    declare(A, resource(2, "/ours"));
    const uint8_t third = 3;
    pdi_registry_join(node[A], 2, (pyddsi_bytes){&third, 1}, PYDDSI_CAN_ALL, 0);
    for (int i = 0; i < 65535; i++) { /* without a commit */
        hand[0] = PYDDSI_SUBSCRIPTION;
        hand[1] = (uint8_t)(i * 2 & 0x7e);
        hand[2] = 1;
        hand_size = 3;
        hand_count = 1;
        send(false);
    }
    CHECK_EQ(answer(), PDI_STATUS_LARGE);
    for (int i = 0; i < 21845; i++) { /* all at once and committed */
        memcpy(hand + hand_size, (uint8_t[]){PYDDSI_SUBSCRIPTION, (uint8_t)(2 + i % 63 * 2), 1}, 3);
        hand_size += 3;
        hand_count++;
    }
    CHECK_EQ(send(true), PDI_REGISTRY_REFUSED);
    CHECK_EQ(pdi_registry_usage(node[A]).remotes, 0);
    for (uint64_t i = 0; i < 600; i++) { /* as much as it can get, one by one */
        memset(name, 'n', sizeof name);
        name[0] = '/';
        name[1 + i % 1023] = 0;
        say_resource(10 + 2 * i, name);
        CHECK(answer() < 6);
        snprintf(name, sizeof name, "/s%d?{a > 1}", (int)i);
        say_selection(11 + 2 * i, name);
        CHECK(answer() < 6);
        say_subscription(11 + 2 * i, 1);
        CHECK(answer() < 6);
        say_binding(11 + 2 * i, 9 + 2 * i);
        CHECK(answer() < 6);
    }
    usage = pdi_registry_usage(node[A]);
    CHECK(usage.resources <= 5 && usage.remotes <= 16 && usage.selections <= 16);
    CHECK(usage.name_bytes <= 8192 * 3 / 4);
    /* the others have room, and so have we */
    say_resource(4000, "/third");
    say_subscription(4000, 1);
    say_selection(4001, "/ours?{size > 1}");
    say_subscription(4001, 1);
    const pyddsi_list list = {.data = hand, .size = hand_size, .count = hand_count};
    CHECK_EQ(pdi_registry_input(node[A], 2, 0, true, list), PYDDSI_OK);
    hand_size = hand_count = 0;
    CHECK_EQ(links(A, handle), 1);
    declare(A, resource(6, "/ours/too"));
    /* 002-103: all of it goes with it, and nothing of the others' */
    pdi_registry_leave(node[A], B);
    CHECK_EQ(links(A, handle), 1);
    CHECK_EQ(pdi_registry_usage(node[A]).remotes, 2);
    CHECK_EQ(pdi_registry_usage(node[A]).resources, 3);
    CHECK_EQ(pdi_registry_usage(node[A]).selections, 1);
    pdi_registry_join(node[A], B, (pyddsi_bytes){&ids[B], 1}, PYDDSI_CAN_ALL, 0);
    int status = PYDDSI_OK, commits = 0;
    for (; commits < 1000 && status == PYDDSI_OK; commits++) { /* commits that nobody waits for */
        say((pyddsi_declaration){.kind = PYDDSI_COMMIT, .commit = (uint64_t)(commits * 7 & 0xff)});
        status = send(false);
    }
    CHECK_EQ(status, PDI_REGISTRY_REFUSED);
    CHECK(commits > 1 && commits < 20);
}

/* If it failed, several peers together could leave us no room for names of our own. */
static void test_reserve(void)
{
    char name[16];
    begin();
    config.names_bytes = 8 * PDI_REGISTRY_UNIT;
    make(A);
    for (uint32_t peer = 1; peer <= 3; peer++) {
        pdi_registry_join(node[A], peer, (pyddsi_bytes){&ids[B], 1}, PYDDSI_CAN_ALL, 0);
        for (uint64_t i = 0; i < 4; i++) {
            snprintf(name, sizeof name, "/%u/%u", peer, (unsigned)i);
            say_resource(100 * peer + 2 * i, name);
            const pyddsi_list list = {.data = hand, .size = hand_size, .count = hand_count};
            int status = pdi_registry_input(node[A], peer, 0, true, list);
            CHECK_EQ(status, 4 * (peer - 1) + i < 6 ? PYDDSI_OK : PDI_REGISTRY_REFUSED);
            hand_size = hand_count = 0;
        }
    }
    declare(A, resource(2, "/ours"));
    declare(A, resource(4, "/ours/too"));
    CHECK_EQ(refused(A, resource(6, "/ours/three")), PDI_STATUS_SPACE);
}

/* If it failed, a change would be lost without a count. */
static void test_changes_lost(void)
{
    struct pdi_change change;
    uint32_t taken = 0;
    begin();
    make(A);
    for (int i = 0; i < 50; i++)
        CHECK_EQ(pdi_registry_forget(node[A], declare(A, subscription(2))), PYDDSI_OK);
    while (pdi_registry_change(node[A], &change) == PYDDSI_OK)
        taken++;
    CHECK_EQ(taken, 32);
    CHECK_EQ(pdi_registry_changes_lost(node[A]), 18);
}

int main(void)
{
    test_one_round();
    test_commit_mode();
    test_statuses();
    test_unsupported();
    test_selections();
    test_unicast();
    test_quality();
    test_committed();
    test_matching();
    test_same();
    test_routes();
    test_spaces();
    test_conflict();
    test_first_fault();
    test_refusals();
    test_anew();
    test_contested();
    test_newcomer();
    test_plain_peer();
    test_widths();
    test_modes();
    test_limits();
    test_hostile();
    test_reserve();
    test_changes_lost();
    return test_result();
}
