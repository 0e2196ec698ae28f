/* Reads and writes the operation of a site. Checks the shapes of the tables of
 * positions, so that a bad run is refused when it is stored. The elements of these tensors are
 * checked later, when the site is opened. */
#include "runs/inputs.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "attention/position_rule.h"

/* --- tables --- */

/* The tables of each kind of position. `axes` has a letter for each axis: H is the number of heads,
 * E the width of a score, V the width of a value, b any number of buckets, d an odd number of
 * distances, e an even one. An axis h in front may be missing: then all heads share a table. */
static const struct {
    attn_position_kind kind;
    const char *place, *axes;
    size_t offset; /* offset in attn_position */
    bool optional;
} tables[] = {
    {ATTN_POSITION_ALIBI, "position/slopes", "H", offsetof(attn_position, slopes), true},
    {ATTN_POSITION_T5, "position/table", "bH", offsetof(attn_position, table), false},
    {ATTN_POSITION_RELATIVE, "position/table", "Hd", offsetof(attn_position, table), false},
    {ATTN_POSITION_SHAW, "position/key_table", "hdE", offsetof(attn_position, key_table), false},
    {ATTN_POSITION_SHAW, "position/value_table", "hdV", offsetof(attn_position, value_table), true},
    {ATTN_POSITION_DISENTANGLED, "position/key_table", "heE", offsetof(attn_position, key_table),
     true},
    {ATTN_POSITION_DISENTANGLED, "position/query_table", "heE",
     offsetof(attn_position, query_table), true},
};

/* Returns whether an axis may have this size, and writes the expected size to `words`. */
static bool axis_fits(const attn_attention_dims *d, char axis, size_t size, char words[32]) {
    const size_t wanted = axis == 'H' || axis == 'h' ? d->Hq : axis == 'E' ? d->score_width : d->Ev;
    if (axis == 'b' || axis == 'd' || axis == 'e') {
        snprintf(words, 32, "%s",
                 axis == 'b'   ? "buckets"
                 : axis == 'd' ? "an odd number"
                               : "an even number");
        return axis == 'b' ? size > 0 : size % 2 == (axis == 'd');
    }
    snprintf(words, 32, "%zu", wanted);
    return size == wanted;
}

static void check_table(attn_run_reader *r, const char *place, const attn_tensor *t,
                        const char *axes) {
    char words[32], wanted[128] = "", shape[128] = "none";
    axes += *axes == 'h' && t->rank < 3; /* without axis h all heads share a table */
    const int rank = (int)strlen(axes);
    bool fits = t->rank == rank;
    for (int k = 0, used = 0; k < rank; k++) {
        fits &= axis_fits(&r->site->shape, axes[k], t->rank == rank ? t->dims[k] : 0, words);
        used += snprintf(wanted + used, sizeof wanted - (size_t)used, "%s%s", k ? ", " : "", words);
    }
    if (fits && t->dtype <= ATTN_F64)
        return;
    if (t->rank)
        attn_shape_text(t->dims, t->rank, shape, sizeof shape);
    attn_run_refuse(r, fits ? ATTN_EDTYPE : ATTN_ESHAPE, place,
                    "expected a tensor of real numbers of shape [%s], found %s%s%s", wanted, shape,
                    t->rank ? " of " : "", t->rank ? attn_dtype_name(t->dtype) : "");
}

static void check_tables(attn_run_reader *r) {
    const attn_position *p = attn_score_position(&r->site->in);
    char place[64];
    for (size_t i = 0; i < sizeof tables / sizeof *tables && !r->status; i++) {
        const attn_tensor *t = attn_tensor_at(p, tables[i].offset);
        snprintf(place, sizeof place, "%s%s", r->site->in.score_position.kind ? "score_" : "",
                 tables[i].place);
        if (tables[i].kind == p->kind && (t->rank || !tables[i].optional))
            check_table(r, place, t, tables[i].axes);
    }
}

void attn_run_check_axes(attn_run_reader *r) {
    const attn_attention_dims *d = &r->site->shape;
    const attn_tensor *query = &r->site->in.query;
    char shape[128];
    if (!r->site->kernel && !(d->B && d->Hq && d->E))
        attn_run_refuse(r, ATTN_ESHAPE, "query",
                        "expected at least one sequence, one head and a width of 1, found %s",
                        attn_shape_text(query->dims, query->rank, shape, sizeof shape));
}

/* --- reading --- */

/* Reads an object that is a member of position, "position/scaling" or "position/axes", if there is
 * one. */
static void read_inner(attn_run_reader *r, attn_json *position, const char *place) {
    attn_json *object = attn_json_member(position, strchr(place, '/') + 1);
    if (!object || !attn_run_expect(r, object, ATTN_JSON_OBJECT, place, "an object"))
        return;
    attn_run_read_rows(r, object, place, attn_input_rows, &r->site->in);
    attn_run_refuse_unknown(r, object, place);
}

/* Reads score, position, score_position, normalizer, mix or subtract: an object with the required
 * member `first`, unless that is NULL. */
static void read_object(attn_run_reader *r, attn_json *site, const char *name, const char *first) {
    attn_json *object = attn_json_member(site, name);
    char place[32], what[32];
    snprintf(what, sizeof what, "an object with %s", first ? first : "tensors");
    if (!object || !attn_run_expect(r, object, ATTN_JSON_OBJECT, name, what))
        return;
    snprintf(place, sizeof place, "%s/%s", name, first ? first : "");
    if (first && !attn_json_member(object, first))
        attn_run_refuse(r, ATTN_EARG, place, "the %s of the %s is missing", first, name);
    attn_run_read_rows(r, object, name, attn_input_rows, &r->site->in);
    if (strcmp(name, "position") == 0) {
        read_inner(r, object, "position/scaling");
        read_inner(r, object, "position/axes");
    }
    attn_run_refuse_unknown(r, object, name);
}

void attn_run_read_operation(attn_run_reader *r, attn_json *object) {
    attn_inputs *in = &r->site->in;
    attn_error inner = {0};
    attn_run_read_rows(r, object, "", attn_input_rows, in);
    read_object(r, object, "score", "kind");
    read_object(r, object, "position", "kind");
    read_object(r, object, "score_position", "kind");
    read_object(r, object, "normalizer", "kind");
    read_object(r, object, "mix", NULL);
    if (attn_json_member(object, "mix") && !in->mix.logits.rank && !in->mix.weights.rank)
        attn_run_refuse(r, ATTN_EARG, "mix", "the matrices logits and weights are both missing");
    read_object(r, object, "subtract", "pairs");
    for (const attn_input *row = attn_input_rows; row < attn_input_rows + 2; row++)
        if (!attn_tensor_at(in, row->offset)->rank)
            attn_run_refuse(r, ATTN_EARG, row->name,
                            "the file has no tensor \"sites.%zu.%s\", and the site names no other",
                            r->index, row->name);
    attn_run_read_mask_positions(r, object);
    attn_run_read_blocks(r, object);
    if (!r->status && attn_attention_shape(in, &r->site->shape, &inner))
        attn_run_refuse_error(r, &inner);
    if (!r->status)
        check_tables(r);
}

/* --- writing --- */

/* Writes the object of this name in the rows: score, position, score_position, normalizer, or
 * position/scaling and position/axes, members of position. */
static void write_object(const attn_run_naming *to, const char *name, const attn_inputs *in,
                         const attn_inputs *usual) {
    const char *inner = strchr(name, '/');
    attn_json_key_object(to->text, inner ? inner + 1 : name);
    attn_run_write_rows(to, name, attn_input_rows, in, usual);
    if (strcmp(name, "position") == 0 && in->position.scaling.kind)
        write_object(to, "position/scaling", in, usual);
    if (strcmp(name, "position") == 0 && in->position.axes.pairs.rank)
        write_object(to, "position/axes", in, usual);
    attn_json_object_end(to->text);
}

void attn_run_write_operation(const attn_run_naming *to, const attn_inputs *in) {
    const attn_inputs usual = attn_attention_defaults();
    attn_run_write_rows(to, "", attn_input_rows, in, &usual);
    if (in->score.kind)
        write_object(to, "score", in, &usual);
    if (in->position.kind)
        write_object(to, "position", in, &usual);
    if (in->score_position.kind)
        write_object(to, "score_position", in, &usual);
    if (in->normalizer.kind)
        write_object(to, "normalizer", in, &usual);
    if (in->mix.logits.rank || in->mix.weights.rank)
        write_object(to, "mix", in, &usual);
    if (in->subtract.pairs)
        write_object(to, "subtract", in, &usual);
    attn_run_write_masks(to, &in->mask);
}
