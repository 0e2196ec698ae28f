/* Tables of fields: as many rows as there are given bits, and no more. */
#include <stdio.h>

#include "api/common/route.h"
#include "api/common/scope.h"
#include "jobs/jobs.h"
#include "unit/wire_body.h"

/* Fields of a table with as many rows as the bits: each sets its bit and no other. */
static void test_rows_beyond_a_word(void **state) {
    struct {
        srv_given_bits given;
        bool on[SRV_FIELDS_MOST];
    } in;
    srv_field table[SRV_FIELDS_MOST + 1] = {0};
    srv_scope scope = {NULL, table, &in.given, ""};
    char names[SRV_FIELDS_MOST][8], body[64];
    (void)state;
    for (size_t i = 0; i < SRV_FIELDS_MOST; i++) {
        snprintf(names[i], sizeof names[i], "f%zu", i);
        table[i] = (srv_field){.name = names[i],
                               .kind = SRV_BOOL,
                               .offset = sizeof in.given + i,
                               .doc = "A row.",
                               .required = i == 127};
    }
    for (size_t i = 0; i < SRV_FIELDS_MOST - 1; i++) {
        srv_request req;
        memset(&in, 0, sizeof in);
        snprintf(body, sizeof body, "{\"f%zu\":true,\"f127\":true}", i);
        wire_open(&req, body, strlen(body), 1 << 20);
        assert_true(srv_decode(&req, table, &in));
        for (size_t k = 0; k < SRV_FIELDS_MOST; k++) {
            assert_int_equal(in.on[k], k == i || k == 127);
            assert_int_equal(srv_given(&scope, names[k]), k == i || k == 127);
            assert_int_equal(srv_given_inside(&scope, table[k].offset, 1), k == i || k == 127);
        }
        srv_given_drop(&in.given, 127);
        assert_true(srv_given_any(&in.given));
        srv_given_drop(&in.given, i);
        assert_false(srv_given_any(&in.given));
        wire_close(&req);
        snprintf(body, sizeof body, "{\"f%zu\":true}", i);
        wire_open(&req, body, strlen(body), 1 << 20);
        assert_false(srv_decode(&req, table, &in));
        wire_problem(&req, 422, "invalid_value", "", "\"f127\" is required: A row.");
        wire_close(&req);
    }
}

/* A table of `rows` rows, its last one an object of the table `inner`. */
static void fill_table(srv_field *table, size_t rows, const srv_field *inner) {
    for (size_t i = 0; i < rows; i++)
        table[i] = (srv_field){.name = "row", .kind = SRV_BOOL};
    table[rows - 1].kind = SRV_OBJECT;
    table[rows - 1].fields = inner;
    table[rows] = (srv_field){0};
}

static void test_most_rows(void **state) {
    srv_field outer[SRV_FIELDS_MOST + 2], inner[SRV_FIELDS_MOST + 2];
    (void)state;
    fill_table(inner, SRV_FIELDS_MOST, NULL);
    fill_table(outer, SRV_FIELDS_MOST, inner);
    assert_true(srv_fields_fit(outer));
    fill_table(inner, SRV_FIELDS_MOST + 1, NULL);
    assert_false(srv_fields_fit(outer));
    fill_table(outer, SRV_FIELDS_MOST + 1, NULL);
    assert_false(srv_fields_fit(outer));
}

static void test_tables_of_routes_fit(void **state) {
    size_t tables = 0;
    (void)state;
    srv_job_fields_make();
    for (const srv_route *route = srv_routes; route->method; route++)
        if (route->fields) {
            assert_true(srv_fields_fit(route->fields));
            tables++;
        }
    assert_true(tables > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_beyond_a_word),
        cmocka_unit_test(test_most_rows),
        cmocka_unit_test(test_tables_of_routes_fit),
    };
    return cmocka_run_group_tests_name("wire_tables", tests, NULL, NULL);
}
