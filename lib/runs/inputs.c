/* Reads and writes the operation of a site as JSON: tables of its tensors, numbers and words. */
#include "runs/inputs.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define AT(member) offsetof(attn_inputs, member)

/* The tensors of the site itself, then those of its score and of its position. */
static const attn_run_member site_tensors[] = {{"query", AT(query)},
                                               {"key", AT(key)},
                                               {"value", AT(value)},
                                               {"past_key", AT(past_key)},
                                               {"past_value", AT(past_value)},
                                               {"sinks", AT(sinks)},
                                               {NULL, 0}};
static const attn_run_member score_tensors[] = {{"w_q", AT(score.w_q)}, {"w_k", AT(score.w_k)},
                                                {"b", AT(score.b)},     {"v", AT(score.v)},
                                                {"w", AT(score.w)},     {NULL, 0}};
static const attn_run_member position_tensors[] = {{"slopes", AT(position.slopes)},
                                                   {"table", AT(position.table)},
                                                   {"key_table", AT(position.key_table)},
                                                   {"value_table", AT(position.value_table)},
                                                   {NULL, 0}};

static const char *const layouts[] = {"BHLE", "BLHE", "BLD", NULL};
static const char *const precisions[] = {"fp32", "fast", "bf16", NULL};
static const char *const positions[] = {"none",   "alibi",      "t5",      "relative", "shaw",
                                        "rotary", "sinusoidal", "learned", NULL};
static const char *const pairs[] = {"", "interleaved", "halves", NULL};

_Static_assert(sizeof layouts / sizeof *layouts == ATTN_BLD + 2 &&
                   sizeof positions / sizeof *positions == ATTN_POSITION_LEARNED + 2 &&
                   sizeof precisions / sizeof *precisions == ATTN_PRECISION_COUNT + 1,
               "each has its name");
_Static_assert(sizeof(attn_layout) == sizeof(int) && sizeof(attn_precision) == sizeof(int) &&
                   sizeof(attn_position_kind) == sizeof(int) && sizeof(attn_rotary) == sizeof(int),
               "the tables write them so");

/* What a member holds. SEED is a string of decimal digits, since a JSON number has 53 bits. */
typedef enum value_kind { REAL, SIZE, FLAG, NOT_FLAG, WORD, SEED } value_kind;

/* A member with a value and the place of the value in attn_inputs. It is written if it differs from
 * the default, which attn_attention_defaults gives. */
typedef struct value_member {
    const char *name;
    value_kind kind;
    size_t offset;
    double least, most;       /* REAL, SIZE */
    const char *const *words; /* WORD */
} value_member;

#define LARGEST 1.7e308
static const value_member site_values[] = {
    {"layout", WORD, AT(layout), 0, 0, layouts},
    {"num_heads", SIZE, AT(num_heads), 1, 1048576, NULL},
    {"num_kv_heads", SIZE, AT(num_kv_heads), 1, 1048576, NULL},
    {"scale", REAL, AT(scale), -LARGEST, LARGEST, NULL},
    {"softcap", REAL, AT(softcap), 0, LARGEST, NULL},
    {"dropout_p", REAL, AT(dropout_p), 0, 1, NULL},
    {"dropout_seed", SEED, AT(dropout_seed), 0, 0, NULL},
    {"allow_nonfinite", FLAG, AT(allow_nonfinite), 0, 0, NULL},
    {"precision", WORD, AT(precision), 0, 0, precisions},
    {NULL, REAL, 0, 0, 0, NULL}};
static const value_member position_values[] = {
    {"kind", WORD, AT(position.kind), 0, 0, positions},
    {"max_distance", SIZE, AT(position.max_distance), 1, 1048576, NULL},
    {"bidirectional", NOT_FLAG, AT(position.unidirectional), 0, 0, NULL},
    {"layout", WORD, AT(position.rotary), 0, 0, pairs},
    {"base", REAL, AT(position.base), 0, LARGEST, NULL},
    {"dims", SIZE, AT(position.dims), 2, 1099511627776.0, NULL},
    {"dropout_p", REAL, AT(position.dropout_p), 0, 1, NULL},
    {"dropout_seed", SEED, AT(position.dropout_seed), 0, 0, NULL},
    {NULL, REAL, 0, 0, 0, NULL}};

/* --- errors --- */

attn_status attn_run_refuse(const attn_run_reader *r, attn_status status, const char *member,
                            const char *format, ...) {
    char text[sizeof r->err->text], where[sizeof r->err->where];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(where, sizeof where, "sites/%zu%s%.60s", r->index, *member ? "/" : "", member);
    return attn_fail(r->err, status, where, "%s", text);
}

attn_status attn_run_refuse_unknown(const attn_run_reader *r, const attn_json *object,
                                    const char *where) {
    const attn_json *unknown = attn_json_unknown(object);
    char member[96];
    if (!unknown)
        return ATTN_OK;
    snprintf(member, sizeof member, "%s%s%.48s", where, *where ? "/" : "", unknown->key);
    return attn_run_refuse(r, ATTN_EARG, member,
                           "there is no such member; names of your own begin with \"x-\"");
}

/* --- reading --- */

/* Writes "where/member" to `to`, which has 96 bytes. */
static const char *join(char to[96], const char *where, const char *member) {
    snprintf(to, 96, "%s%s%.40s", where, *where ? "/" : "", member);
    return to;
}

attn_status attn_run_no_tensor(const attn_run_reader *r, const char *place, const char *name) {
    for (size_t i = 0; i < r->run->file.unusable_count; i++) {
        const attn_unusable_tensor *t = &r->run->file.unusable[i];
        if (strcmp(t->name, name) == 0)
            return attn_run_refuse(r, t->code, place, "tensor \"%.64s\": %s", name, t->reason);
    }
    return attn_run_refuse(r, ATTN_EARG, place, "the file has no tensor with the name \"%.64s\"",
                           name);
}

attn_status attn_run_read_tensor(const attn_run_reader *r, attn_json *object, const char *where,
                                 const char *member, attn_tensor *out) {
    const attn_json *named = attn_json_member(object, member);
    char place[96], name[128];
    join(place, where, member);
    if (named && named->kind != ATTN_JSON_STRING)
        return attn_run_refuse(r, ATTN_EARG, place, "expected the name of a tensor, found %s",
                               attn_json_kind_name(named));
    snprintf(name, sizeof name, "sites.%zu.%s", r->index, place);
    for (char *p = name; *p; p++)
        *p = *p == '/' ? '.' : *p;
    const attn_tensor *found = attn_run_find_tensor(r->run, named ? named->text : name);
    if (!found)
        return named ? attn_run_no_tensor(r, place, named->text) : ATTN_OK;
    if (!attn_tensor_is_aligned(found))
        return attn_run_refuse(r, ATTN_EARG, place,
                               "the data of tensor \"%.64s\" does not begin at a multiple of its "
                               "element size",
                               named ? named->text : name);
    *out = *found;
    return ATTN_OK;
}

static attn_status read_word(const attn_run_reader *r, const attn_json *value, const char *place,
                             const char *const *words, int *out) {
    char all[160] = "";
    size_t used = 0;
    for (int i = 0; words[i]; i++) {
        if (value->kind == ATTN_JSON_STRING && *words[i] && strcmp(words[i], value->text) == 0) {
            *out = i;
            return ATTN_OK;
        }
        if (*words[i] && used < sizeof all)
            used +=
                (size_t)snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "", words[i]);
    }
    return attn_run_refuse(r, ATTN_EARG, place, "expected one of %s, found %.64s", all,
                           value->kind == ATTN_JSON_STRING ? value->text
                                                           : attn_json_kind_name(value));
}

static attn_status read_number(const attn_run_reader *r, const attn_json *value, const char *place,
                               const value_member *m, void *at) {
    int64_t integer;
    if (m->kind == SIZE &&
        attn_json_integer(value, (int64_t)m->least, (int64_t)m->most, &integer)) {
        memcpy(at, &integer, sizeof integer);
        return ATTN_OK;
    }
    if (m->kind == REAL && value->kind == ATTN_JSON_NUMBER && value->number >= m->least &&
        value->number <= m->most) {
        memcpy(at, &value->number, sizeof value->number);
        return ATTN_OK;
    }
    return attn_run_refuse(r, ATTN_EARG, place, "expected %s from %g to %g, found %s",
                           m->kind == SIZE ? "an integer" : "a number", m->least, m->most,
                           value->kind == ATTN_JSON_NUMBER ? "another number"
                                                           : attn_json_kind_name(value));
}

static attn_status read_seed(const attn_run_reader *r, const attn_json *value, const char *place,
                             uint64_t *out) {
    uint64_t seed = 0;
    const char *p = value->kind == ATTN_JSON_STRING ? value->text : "";
    const char *start = p;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(seed, (uint64_t)10, &seed) ||
            __builtin_add_overflow(seed, (uint64_t)(*p - '0'), &seed))
            break;
    if (*p || p == start)
        return attn_run_refuse(r, ATTN_EARG, place,
                               "expected a string of decimal digits below 2^64");
    *out = seed;
    return ATTN_OK;
}

static attn_status read_value(const attn_run_reader *r, const attn_json *value, const char *place,
                              const value_member *m) {
    void *at = (char *)&r->site->in + m->offset;
    switch (m->kind) {
    case WORD:
        return read_word(r, value, place, m->words, at);
    case FLAG:
    case NOT_FLAG:
        if (value->kind != ATTN_JSON_BOOL)
            return attn_run_refuse(r, ATTN_EARG, place, "expected true or false, found %s",
                                   attn_json_kind_name(value));
        *(bool *)at = value->truth != (m->kind == NOT_FLAG);
        return ATTN_OK;
    case SEED:
        return read_seed(r, value, place, at);
    default:
        return read_number(r, value, place, m, at);
    }
}

static attn_status read_values(const attn_run_reader *r, attn_json *object, const char *where,
                               const value_member *m) {
    attn_status status = ATTN_OK;
    for (; m->name && !status; m++) {
        char place[96];
        const attn_json *value = attn_json_member(object, m->name);
        if (value)
            status = read_value(r, value, join(place, where, m->name), m);
    }
    return status;
}

static attn_status read_tensors(const attn_run_reader *r, attn_json *object, const char *where,
                                const attn_run_member *m) {
    attn_status status = ATTN_OK;
    for (; m->name && !status; m++)
        status = attn_run_read_tensor(r, object, where, m->name,
                                      (attn_tensor *)(void *)((char *)&r->site->in + m->offset));
    return status;
}

attn_status attn_run_read_integers(const attn_run_reader *r, const attn_json *list,
                                   const char *member, size_t count, int64_t least, int64_t most,
                                   int64_t **out) {
    if (list->kind != ATTN_JSON_LIST || list->count != count)
        return attn_run_refuse(
            r, ATTN_ESHAPE, member, "expected a list of %zu numbers, found %s", count,
            list->kind == ATTN_JSON_LIST ? "another number of them" : attn_json_kind_name(list));
    int64_t *values = attn_arena_zeroed(r->run->arena, count + 1, sizeof *values), *at = values;
    if (!values)
        return attn_run_refuse(r, ATTN_ENOMEM, member, "no memory left for the numbers");
    for (const attn_json *v = list->first; v; v = v->next)
        if (!attn_json_integer(v, least, most, at++))
            return attn_run_refuse(r, ATTN_EVALUE, member,
                                   "expected integers from %lld to %lld, found %s at index %zu",
                                   (long long)least, (long long)most,
                                   v->kind == ATTN_JSON_NUMBER ? "another number"
                                                               : attn_json_kind_name(v),
                                   (size_t)(at - values - 1));
    *out = values;
    return ATTN_OK;
}

/* Reads score or position: an object whose `kind` is a word. */
static attn_status need_object(const attn_run_reader *r, const attn_json *value,
                               const char *place) {
    return value->kind == ATTN_JSON_OBJECT
               ? ATTN_OK
               : attn_run_refuse(r, ATTN_EARG, place, "expected an object with kind, found %s",
                                 attn_json_kind_name(value));
}

static attn_status read_score(const attn_run_reader *r, attn_json *score) {
    static const char *names[ATTN_SCORE_COUNT + 1];
    attn_json *kind = NULL;
    int found = 0;
    attn_status status = need_object(r, score, "score");
    if (status)
        return status;
    for (int i = 0; i < ATTN_SCORE_COUNT; i++)
        names[i] = attn_score_name((attn_score_kind)i);
    kind = attn_json_member(score, "kind");
    status = kind ? read_word(r, kind, "score/kind", names, &found)
                  : attn_run_refuse(r, ATTN_EARG, "score/kind", "the kind of the score is missing");
    r->site->in.score.kind = (attn_score_kind)found;
    if (!status)
        status = read_tensors(r, score, "score", score_tensors);
    return status ? status : attn_run_refuse_unknown(r, score, "score");
}

static attn_status read_position(const attn_run_reader *r, attn_json *position) {
    attn_status status = need_object(r, position, "position");
    if (!status && !attn_json_member(position, "kind"))
        status =
            attn_run_refuse(r, ATTN_EARG, "position/kind", "the kind of the position is missing");
    if (!status)
        status = read_values(r, position, "position", position_values);
    if (!status)
        status = read_tensors(r, position, "position", position_tensors);
    return status ? status : attn_run_refuse_unknown(r, position, "position");
}

/* Computes the sizes from the operation without its masks. */
static attn_status check_shape(const attn_run_reader *r) {
    attn_error inner = {0};
    attn_status status = attn_attention_shape(&r->site->in, &r->site->shape, &inner);
    return status ? attn_run_refuse(r, status, inner.where, "%s", inner.text) : ATTN_OK;
}

attn_status attn_run_read_operation(const attn_run_reader *r, attn_json *object) {
    attn_json *score = attn_json_member(object, "score");
    attn_json *position = attn_json_member(object, "position");
    attn_inputs *in = &r->site->in;
    attn_status status = read_tensors(r, object, "", site_tensors);
    if (!status)
        status = read_values(r, object, "", site_values);
    if (!status && score)
        status = read_score(r, score);
    if (!status && position)
        status = read_position(r, position);
    for (const attn_run_member *m = site_tensors; m < site_tensors + 2 && !status; m++)
        if (!((const attn_tensor *)(const void *)((const char *)in + m->offset))->rank)
            status = attn_run_refuse(r, ATTN_EARG, m->name,
                                     "the file has no tensor \"sites.%zu.%s\", and the site names "
                                     "no other",
                                     r->index, m->name);
    if (!status)
        status = check_shape(r);
    return status ? status : attn_run_check_tables(r);
}

/* --- writing --- */

static void write_tensors(const attn_run_naming *to, const attn_inputs *in, const char *where,
                          const attn_run_member *m) {
    for (; m->name; m++) {
        const attn_tensor *t = (const attn_tensor *)(const void *)((const char *)in + m->offset);
        char member[96];
        if (!t->rank)
            continue;
        attn_json_key(to->text, m->name);
        attn_json_string(to->text, to->tensor(to->ctx, join(member, where, m->name), t));
    }
}

static void write_value(attn_json_text *t, const value_member *m, const void *at) {
    double real;
    int64_t integer;
    uint64_t seed;
    char digits[24];
    switch (m->kind) {
    case REAL:
        memcpy(&real, at, sizeof real);
        attn_json_real(t, real);
        break;
    case SIZE:
        memcpy(&integer, at, sizeof integer);
        attn_json_int(t, integer);
        break;
    case SEED:
        memcpy(&seed, at, sizeof seed);
        snprintf(digits, sizeof digits, "%llu", (unsigned long long)seed);
        attn_json_string(t, digits);
        break;
    case FLAG:
    case NOT_FLAG:
        attn_json_bool(t, *(const bool *)at != (m->kind == NOT_FLAG));
        break;
    case WORD:
        attn_json_string(t, m->words[*(const int *)at]);
        break;
    }
}

static size_t size_of(value_kind kind) {
    return kind == WORD ? sizeof(int) : kind == FLAG || kind == NOT_FLAG ? sizeof(bool) : 8;
}

/* Writes the values that differ from the defaults. */
static void write_values(attn_json_text *t, const attn_inputs *in, const value_member *m) {
    const attn_inputs usual = attn_attention_defaults();
    for (; m->name; m++) {
        const void *at = (const char *)in + m->offset;
        if (memcmp(at, (const char *)&usual + m->offset, size_of(m->kind)) == 0 ||
            (m->kind == REAL && isnan(*(const double *)at)))
            continue;
        attn_json_key(t, m->name);
        write_value(t, m, at);
    }
}

void attn_run_write_operation(const attn_run_naming *to, const attn_inputs *in) {
    attn_json_text *t = to->text;
    write_tensors(to, in, "", site_tensors);
    write_values(t, in, site_values);
    if (in->score.kind) {
        attn_json_key(t, "score");
        attn_json_object(t);
        attn_json_key(t, "kind");
        attn_json_string(t, attn_score_name(in->score.kind));
        write_tensors(to, in, "score", score_tensors);
        attn_json_object_end(t);
    }
    if (in->position.kind) {
        attn_json_key(t, "position");
        attn_json_object(t);
        write_values(t, in, position_values);
        write_tensors(to, in, "position", position_tensors);
        attn_json_object_end(t);
    }
    attn_run_write_masks(to, &in->mask);
}
