/* Tests records of traffic that are damaged, and records that are added up. */
#include "lookup_recording.h"

#include "traffic.h"

#define LAYER "\"layer\":\"E=2 k=2 T=64 D=16 H=96 dtype=f32 pass=train act=relu W=8 m=4\""
#define HEAD "{\"format\":\"moetune-traffic\",\"version\":1," LAYER ",\"window\":128,"
#define NOBODY "\"cluster\":null,\"device\":null,\"lost\":0,"
static const char sound[] = HEAD NOBODY "\"asked\":[[0,\"clamped\",3],[2,\"exact\",9]]}\n";

static void half_a_line_spoils_no_other(void)
{
    const char *record = file_of("half.jsonl");
    struct moelookup *table = recording(record);
    struct moelookup_view *view = bind_layer(table, layer(96));
    static char text[8192];
    struct traffic t = { 0 };

    write_file(record, sound, sizeof(sound) / 2);
    ask(view, 300);
    moelookup_view_free(view);
    moelookup_close(table);
    read_text(record, text, sizeof(text));
    catch_stderr();
    CHECK(traffic_read(record, &t) == ERR_FORMAT);
    release_stderr();
    CHECK(strstr(heard, "line 1 is no record"));
    traffic_free(&t);
    CHECK(!traffic_parse(strchr(text, '\n') + 1, strlen(strchr(text, '\n') + 1), "rest", &t));
    CHECK(count_at(&t, 2, MOE_EXACT) == 1);
    traffic_free(&t);
}

static void damage_is_refused_with_line_and_field(void)
{
    static const struct {
        const char *line, *said;
    } bad[] = {
        { " \n", "is no record of look-ups" },
        { "[]\n", "is no record of look-ups" },
        { "{}\n", "\"format\" is missing" },
        { "{\"format\":\"moetune-table\"}\n", "\"format\" is not moetune-traffic" },
        { "{\"format\":\"moetune-traffic\",\"version\":2}\n", "\"version\" is no version" },
        { "{\"layer\":\"E=2\"}\n", "\"layer\"" },
        { "{\"layer\":\"E=2 k=x\"}\n", "\"layer\" is no layer" },
        { "{" LAYER "," LAYER "}\n", "\"layer\" comes twice" },
        { "{\"window\":0}\n", "\"window\" is no width" },
        { "{\"window\":1.5}\n", "\"window\" is no width" },
        { "{\"window\":4294967296}\n", "\"window\" is no width" },
        { "{\"lost\":-1}\n", "\"lost\" is no count" },
        { "{\"cluster\":\"00ff\"}\n", "\"cluster\" is no hash" },
        { "{\"device\":7}\n", "\"device\" is no name" },
        { "{\"asked\":{}}\n", "\"asked\" is no list" },
        { "{\"asked\":[1]}\n", "\"asked\" has an item that is no" },
        { "{\"asked\":[[1]]}\n", "\"asked\" has an item that is no" },
        { "{\"asked\":[[1,\"exact\",1,1]]}\n", "\"asked\" has an item that is no" },
        { "{\"asked\":[[1,\"luck\",1]]}\n", "\"asked\" has an item that is no" },
        { "{\"asked\":[[1,\"exact\",0]]}\n", "\"asked\" has an item that is no" },
        { "{\"asked\":[[4294967296,\"exact\",1]]}\n", "\"asked\" has an item that is no" },
        { "{\"asked\":[[1,\"exact\",1e300]]}\n", "\"asked\" has an item that is no" },
        { "{\"asked\":[[1,\"exact\",[1]]]}\n", "\"asked\" has an item that is no" },
        { "{\"asked\":[[2,\"exact\",1],[2,\"stale\",1]]}\n", "\"asked\" is not by bucket" },
        { "{\"asked\":[[2,\"exact\",1],[1,\"exact\",1]]}\n", "\"asked\" is not by bucket" },
        { "{\"lost\":{\"a\":1}}\n", "\"lost\" is no count" },
        { "{\"since\":1}\n", "\"since\" is not known" },
        { HEAD "\"cluster\":null,\"device\":\"a\",\"lost\":0,\"asked\":[]}\n", "\"device\" and" },
        { HEAD NOBODY "\"asked\":[]}", "no end" },
    };
    char text[1024], wanted[32];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct traffic t = { 0 };
        int length = snprintf(text, sizeof(text), "%s%s", sound, bad[i].line);

        snprintf(wanted, sizeof(wanted), "here, line 2");
        catch_stderr();
        CHECK(traffic_parse(text, (size_t)length, "here", &t) == ERR_FORMAT);
        release_stderr();
        CHECK(strstr(heard, wanted) && strstr(heard, bad[i].said));
        if (!strstr(heard, bad[i].said))
            printf("    %s    %s", bad[i].line, heard);
        traffic_free(&t);
    }
}

static void what_no_file_is_is_refused(void)
{
    struct traffic t = { 0 };

    catch_stderr();
    CHECK(traffic_read(place("nowhere.jsonl"), &t) == ERR_IO);
    CHECK(traffic_read(folder, &t) == ERR_IO);
    release_stderr();
    CHECK(t.count == 0);
}

static void counts_of_several_files_add_up_and_do_not_wrap(void)
{
    static const char most[] = HEAD "\"cluster\":null,\"device\":null,\"lost\":9007199254740992,"
                                    "\"asked\":[[1,\"exact\",9007199254740992]]}\n";
    struct traffic t = { 0 };

    CHECK(!traffic_parse(sound, strlen(sound), "a", &t));
    for (int i = 0; i < 3000; i++)
        CHECK(!traffic_parse(most, strlen(most), "b", &t));
    CHECK(!traffic_parse(sound, strlen(sound), "c", &t));
    CHECK(t.count == 1 && t.layers[0].bucket_count == 3);
    CHECK(count_at(&t, 0, MOE_CLAMPED) == 6 && count_at(&t, 2, MOE_EXACT) == 18);
    CHECK(count_at(&t, 1, MOE_EXACT) == UINT64_MAX);
    CHECK(t.count == 1 && traffic_total(&t.layers[0]) == UINT64_MAX);
    traffic_free(&t);
}

/* Lines of T=64 twice, of T=0, with 4 look-ups beyond the end, and of another layer. */
static void buckets_weigh_what_was_asked_for(void)
{
    static const char others[] =
        "{\"format\":\"moetune-traffic\",\"version\":1,\"layer\":\"E=2 k=2 T=0 D=16 H=96 "
        "dtype=f32 pass=train act=relu W=8 m=4\",\"window\":128," NOBODY
        "\"asked\":[[1,\"exact\",5],[2,\"override\",8],[3,\"exact\",4]]}\n"
        "{\"format\":\"moetune-traffic\",\"version\":1,\"layer\":\"E=2 k=2 T=64 D=32 H=96 "
        "dtype=f32 pass=train act=relu W=8 m=4\",\"window\":128," NOBODY
        "\"asked\":[[0,\"exact\",100]]}\n";
    struct traffic t = { 0 };
    struct moe_shape shape;
    double w[3];

    CHECK(!traffic_parse(sound, sizeof(sound) - 1, "a", &t));
    CHECK(!traffic_parse(sound, sizeof(sound) - 1, "b", &t));
    CHECK(!traffic_parse(others, sizeof(others) - 1, "c", &t));
    shape = t.layers[0].shape;
    CHECK(!traffic_weights(&t, &shape, 128, w, 3));
    CHECK(fabs(w[0] - 6) + fabs(w[1] - 5) + fabs(w[2] - 26) < 1e-9);
    catch_stderr();
    CHECK(traffic_weights(&t, &shape, 64, w, 3) == ERR_ARGUMENT);
    release_stderr();
    CHECK(strstr(heard, "the traffic is of other spaces or layers than E=2 k=2 T=64"));
    catch_stderr();
    CHECK(traffic_weights(&t, &shape, 128, w, 0) == ERR_ARGUMENT);
    release_stderr();
    CHECK(strstr(heard, "the traffic has no look-ups in these buckets of E=2 k=2 T=64"));
    traffic_free(&t);
}

static bool is_in_order(const struct traffic *t)
{
    for (size_t i = 0; i < t->count; i++)
        for (size_t j = 1; j < t->layers[i].bucket_count; j++)
            if (t->layers[i].buckets[j - 1].bucket >= t->layers[i].buckets[j].bucket)
                return false;
    return true;
}

/* Bytes changed, taken out, doubled: refused, or sums in order; and never a crash. */
static void any_damage_is_survived(void)
{
    static const char letters[] = "\"[]{}:,0123456789.-eE \n\\u\xff\0null";
    int taken = 0;

    log_enable(false);
    for (int round = 0; round < 20000; round++) {
        char text[2 * sizeof(sound) + 16];
        size_t length = (size_t)snprintf(text, sizeof(text), "%s%s", sound, sound);
        struct traffic t = { 0 };
        int rc;

        for (uint32_t n = 1 + draw(3); n; n--) {
            size_t at = draw((uint32_t)length);

            if (chance(60)) {
                text[at] = letters[draw(sizeof(letters))];
            } else {
                memmove(text + at, text + at + 1, length - at - 1);
                length--;
            }
        }
        rc = traffic_parse(text, length, "fuzz", &t);
        CHECK(rc == OK || rc == ERR_FORMAT);
        CHECK(is_in_order(&t));
        taken += rc == OK;
        traffic_free(&t);
    }
    log_enable(true);
    CHECK(taken > 0 && taken < 10000); /* the reader is neither deaf nor blind */
}

/* A trainer may run several layers; what one says of a space spoils none of the others. */
static void a_line_of_an_unknown_space_is_counted_and_left_out(void)
{
    struct traffic t = { 0 };
    char strange[1024], *at;

    CHECK(!traffic_parse(sound, strlen(sound), "a", &t) && t.unknown_spaces == 0);
    snprintf(strange, sizeof(strange), "%s", sound);
    at = strstr(strange, "\",\"window\"");
    CHECK(at != NULL);
    snprintf(at, sizeof(strange) - (size_t)(at - strange), " space=nobodys@12345678%s",
             strstr(sound, "\",\"window\""));
    CHECK(!traffic_parse(strange, strlen(strange), "b", &t));
    CHECK(t.unknown_spaces >= 1 && t.count == 1);
    traffic_free(&t);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(half_a_line_spoils_no_other),
        TEST(damage_is_refused_with_line_and_field),
        TEST(what_no_file_is_is_refused),
        TEST(counts_of_several_files_add_up_and_do_not_wrap),
        TEST(buckets_weigh_what_was_asked_for),
        TEST(any_damage_is_survived),
        TEST(a_line_of_an_unknown_space_is_counted_and_left_out),
    };

    return run_with_folder(tests, sizeof(tests) / sizeof(tests[0]));
}
