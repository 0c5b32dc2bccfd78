/* wire/print.h: the line of every kind, and that a line that does not fit is cut and ended. */
#include "wire/print.h"

#include "test.h"
#include "wire/decode.h"

enum { ROOM = 512 };

static const struct {
    const char *packet;
    size_t size;
    const char *line;
} lines[] = {
#define LINE(packet, line) {packet, sizeof(packet) - 1, line}
    LINE("\x01\x05", "SCOUT mask=broker+peer"),
    LINE("\x01\x00", "SCOUT mask=0"),
    LINE("\x01\x31", "SCOUT mask=broker+48"),
    LINE("\x21\x05\x02\x0c\x02\x02\x03\x63\x00",
         "SCOUT P mask=broker+peer properties=[authentication:0203 (2) 99:(0)]"),
    LINE("\x02\x04\x02\x01"
         "a\x00",
         "HELLO mask=peer locators=[\"a\" \"\"]"),
    LINE("\x03\x01\x01\xab\x32\x00", "OPEN version=1 id=ab lease=50 locators=[]"),
    LINE("\x24\x01\xab\x01\xcd\x32\x00", "ACCEPT P opener=ab acceptor=cd lease=50 properties=[]"),
    LINE("\x05\x00\x06", "CLOSE id= reason=declarations"),
    LINE("\x05\x01\xab\x63", "CLOSE id=ab reason=99"),
    LINE("\x66\x00\x00", "DECLARE SC sn=0 declarations=[]"),
    LINE("\x06\x01\x03\x01\x02\x02/a\x23\x03\x04\x01\x02\x03\x00\x06\x07",
         "DECLARE sn=1 declarations=[RESOURCE id=1 uri=\"/a\", SUBSCRIPTION P id=s1 "
         "mode=periodic-pull origin=1 period=2 duration=3 properties=[], COMMIT commit=7]"),
    LINE("\x06\x00\x05\x07\x00\x00\x07\x01\x05\x05\x84\x03\x00\x05\x03\x04\x0b\x07",
         "DECLARE sn=0 declarations=[RESULT commit=0 status=ok, RESULT commit=1 status=invalid "
         "id=s2, SELECTION G id=s1 query=\"\", BINDING id=s1 new_id=2, FORGET SELECTION id=s3]"),
    LINE("\x67\x00\x02\x02\x01\x32", "SDATA SR sn=0 rid=1 payload=0132 (2)"),
    LINE("\x87\x00\x03\x00\x00", "SDATA A sn=0 rid=s1 data_rid=0 payload=(0)"),
    LINE("\x08\x00\x02\x02\x01"
         "a\x00",
         "BDATA sn=0 rid=1 samples=[61 (1) (0)]"),
    LINE("\x89\x00\x06/\"\\\x00\x7f\xff\x00",
         "WDATA z sn=0 uri=\"/\\x22\\x5c\\x00\\x7f\\xff\" payload=(0)"),
    LINE("\xeb\x00\x02\x05", "PULL SNF sn=0 rid=1 limit=5"),
    LINE("\xec\x80\x01", "PING xyz hash=128"),
    LINE("\x0d\x80\x01", "PONG hash=128"),
    LINE("\xee\x05\x03", "SYNCH SRU sn=5 count=3"),
    LINE("\x2f\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
         "ACKNACK M sn=0 mask=18446744073709551615"),
    LINE("\x10\x02\xab\xcd", "KEEPALIVE id=abcd"),
    LINE("\x11\x07", "CONDUIT CLOSE left=7"),
    LINE("\x52\x05\x03", "FRAG N first=5 fragments=3"),
    LINE("\xf3", "CONDUIT conduit=4"),
    LINE("\x13\x00", "CONDUIT conduit=0"),
    LINE("\x34\x01\x05\x02\x03", "MIGRATE I left=1 rid=s2 last_reliable=2 last_unreliable=3"),
    LINE("\x98", "RSPACE space=1"),
};

static pyddsi_message message_of(const char *packet, size_t size)
{
    pyddsi_reading reading;
    pyddsi_options options = {0};
    pyddsi_decoder decoder;
    pyddsi_message message;
    memset(&message, 0xa5, sizeof(message));
    CHECK_EQ(pdi_reading_init(&reading, &options), PYDDSI_OK);
    pdi_decoder_init(&decoder, &reading, (const uint8_t *)packet, size);
    CHECK_EQ(pdi_decoder_next(&decoder, &message), PYDDSI_OK);
    CHECK_EQ(decoder.at, size);
    return message;
}

/* If it failed, people would read something else than the packet says. */
static void test_lines(void)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char out[ROOM];
        pyddsi_message message = message_of(lines[i].packet, lines[i].size);
        CHECK_EQ(pdi_print_message(&message, out, sizeof(out)), strlen(lines[i].line));
        CHECK_TEXT(out, lines[i].line);
    }
}

/* If it failed, a line would be written behind its room, not be ended, or tell another length. */
static void test_room(void)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        pyddsi_message message = message_of(lines[i].packet, lines[i].size);
        size_t length = strlen(lines[i].line);
        for (size_t room = 0; room <= length + 2; room++) {
            char out[ROOM];
            memset(out, '#', sizeof(out));
            CHECK_EQ(pdi_print_message(&message, out, room), length);
            size_t shown = room == 0 ? 0 : room <= length ? room - 1 : length;
            CHECK(memcmp(out, lines[i].line, shown) == 0);
            CHECK(room == 0 || out[shown] == 0);
            CHECK_EQ(out[room], '#');
        }
    }
}

/* If it failed, a long payload would flood the line, or a short one be cut. */
static void test_long_bytes(void)
{
    char packet[4 + 40], out[ROOM], wanted[ROOM];
    for (unsigned size = 30; size <= 40; size++) {
        memset(packet, 0, sizeof(packet));
        packet[0] = 0x07;
        packet[2] = 0x02;
        packet[3] = (char)size;
        pyddsi_message message = message_of(packet, 4 + size);
        unsigned shown = size < PDI_PRINT_BYTES_MAX ? size : PDI_PRINT_BYTES_MAX;
        snprintf(wanted, sizeof(wanted), "SDATA sn=0 rid=1 payload=%0*d%s (%u)", (int)(2 * shown),
                 0, shown < size ? ".." : "", size);
        pdi_print_message(&message, out, sizeof(out));
        CHECK_TEXT(out, wanted);
    }
}

int main(void)
{
    test_lines();
    test_room();
    test_long_bytes();
    return test_result();
}
