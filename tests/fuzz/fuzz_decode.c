/* Any bytes as a request body: srv_decode must neither crash nor read outside of the body, must
 * answer with a well-formed problem or succeed, and what it accepts jansson accepts too; tensors of
 * numbers written out and read again must come back bit for bit. */
#include "fuzz_request.h"
#include "wire/decode.h"
#include "wire/json_out.h"

typedef struct item {
    srv_given_bits given;
    attn_tensor values;
    int64_t weight;
} item;

typedef struct input {
    srv_given_bits given;
    attn_tensor query, mask, ids, flags, items_of_rows, items_of_numbers;
    srv_entries row_entries, number_entries;
    srv_objects items;
    item one;
    srv_union offset;
    srv_ints ints;
    srv_ranges ranges;
    srv_strings words;
    const char *name;
    unsigned parts;
    double scale;
} input;

static const char *const choices[] = {"end", "causal", NULL};

static const srv_field item_fields[] = {
    {.name = "values",
     .kind = SRV_TENSOR,
     .offset = offsetof(item, values),
     .accepts = SRV_T_REAL | SRV_T_INT | SRV_T_BOOL},
    {.name = "weight", .kind = SRV_INT, .offset = offsetof(item, weight), .min = -5, .max = 5},
    {0},
};
static const srv_field fields[] = {
    {.name = "query", .kind = SRV_TENSOR, .offset = offsetof(input, query), .accepts = SRV_T_REAL},
    {.name = "mask",
     .kind = SRV_TENSOR,
     .offset = offsetof(input, mask),
     .accepts = SRV_T_REAL | SRV_T_BOOL | SRV_T_NEGINF | SRV_T_BITS},
    {.name = "ids", .kind = SRV_TENSOR, .offset = offsetof(input, ids), .accepts = SRV_T_INT},
    {.name = "flags", .kind = SRV_TENSOR, .offset = offsetof(input, flags), .accepts = SRV_T_BOOL},
    {.name = "ragged",
     .kind = SRV_TENSOR,
     .offset = offsetof(input, items_of_rows),
     .entries = offsetof(input, row_entries),
     .accepts = SRV_T_REAL | SRV_T_ENTRIES},
    {.name = "entries",
     .kind = SRV_TENSOR,
     .offset = offsetof(input, items_of_numbers),
     .entries = offsetof(input, number_entries),
     .accepts = SRV_T_REAL | SRV_T_BOOL | SRV_T_NEGINF | SRV_T_ENTRIES | SRV_T_ENTRY_ROWS},
    {.name = "items",
     .kind = SRV_OBJECTS,
     .offset = offsetof(input, items),
     .fields = item_fields,
     .size = sizeof(item),
     .max = 16},
    {.name = "one", .kind = SRV_OBJECT, .offset = offsetof(input, one), .fields = item_fields},
    {.name = "offset",
     .kind = SRV_UNION,
     .offset = offsetof(input, offset),
     .accepts = SRV_U_FALSE | SRV_U_INT | SRV_U_NUMBER | SRV_U_INTS | SRV_U_STRING,
     .choices = choices},
    {.name = "ints", .kind = SRV_INTS, .offset = offsetof(input, ints)},
    {.name = "ranges",
     .kind = SRV_RANGES,
     .offset = offsetof(input, ranges),
     .accepts = SRV_R_MANY},
    {.name = "words", .kind = SRV_STRINGS, .offset = offsetof(input, words)},
    {.name = "name", .kind = SRV_STRING, .offset = offsetof(input, name)},
    {.name = "parts", .kind = SRV_FLAGS, .offset = offsetof(input, parts), .choices = choices},
    {.name = "scale", .kind = SRV_REAL, .offset = offsetof(input, scale)},
    {0},
};

static bool same(const attn_tensor *a, const attn_tensor *b) {
    size_t count = 0;
    attn_tensor_count(a, &count);
    if (a->rank != b->rank || a->dtype != b->dtype)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return memcmp(a->data, b->data, count * attn_dtype_size(a->dtype)) == 0;
}

static bool is_finite(const attn_tensor *t) {
    size_t count = 0;
    attn_tensor_count(t, &count);
    for (size_t i = 0; i < count; i++)
        if (!__builtin_isfinite(((const float *)t->data)[i]))
            return false;
    return true;
}

/* Only nested lists are rewritten the same: an axis behind an empty one is not in the text. */
static void check_round_trip(const attn_tensor *t) {
    srv_request out, back;
    attn_json_text j;
    input in = {0};
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] == 0)
            return;
    if (t->rank == 0 || t->dtype != ATTN_F32 || !is_finite(t))
        return;
    fuzz_open(&out, "", 0);
    srv_json_begin(&j, &out);
    attn_json_object(&j);
    attn_json_key(&j, "query");
    srv_json_tensor(&j, t);
    attn_json_object_end(&j);
    if (srv_json_end(&j)) {
        fuzz_open(&back, out.reply.body, out.reply.size);
        if (!srv_decode(&back, fields, &in) ? back.reply.status != 413 : !same(t, &in.query))
            abort();
        fuzz_close(&back);
    }
    fuzz_check_json(out.reply.body, out.reply.size);
    fuzz_close(&out);
}

/* Reads each byte of the elements. Bits without a source have no data. */
static void check_flags(const attn_tensor *t) {
    if (t->rank && t->data)
        fuzz_touch(t);
    for (size_t i = 0; t->rank && t->dtype == ATTN_BOOL && i < fuzz_bytes(t); i++)
        if (((const uint8_t *)t->data)[i] > 1)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    srv_request req;
    input in = {0};
    fuzz_open(&req, data, size);
    if (srv_decode(&req, fields, &in)) {
        fuzz_check_accepted(req.body, size, JSON_REJECT_DUPLICATES);
        check_round_trip(&in.query);
        check_round_trip(&in.mask);
        check_flags(&in.mask);
        check_flags(&in.flags);
    } else {
        fuzz_check_problem(&req);
    }
    fuzz_close(&req);
    return 0;
}
