/* Checks the shapes of what a site's rows share (sinks and the tables of positions) and the axes of
 * a capture, so that a run is refused when it is stored and not when somebody looks at it. What
 * their elements are is checked when the site is opened. */
#include <stddef.h>
#include <stdio.h>

#include "runs/inputs.h"

/* The tables of the positions that have some. An axis is H, E or V (the number of heads, the width
 * of a score or of a value), b (any number of buckets) or d (an odd number of distances). */
static const struct {
    attn_position_kind kind;
    const char *place, *axes;
    size_t offset; /* in attn_position */
    bool optional;
} tables[] = {
    {ATTN_POSITION_ALIBI, "position/slopes", "H", offsetof(attn_position, slopes), true},
    {ATTN_POSITION_T5, "position/table", "bH", offsetof(attn_position, table), false},
    {ATTN_POSITION_RELATIVE, "position/table", "Hd", offsetof(attn_position, table), false},
    {ATTN_POSITION_SHAW, "position/key_table", "dE", offsetof(attn_position, key_table), false},
    {ATTN_POSITION_SHAW, "position/value_table", "dV", offsetof(attn_position, value_table), true},
};

/* Returns whether an axis has the size, and writes in words what was expected. */
static bool axis_fits(const attn_attention_dims *d, char axis, size_t size, char words[32]) {
    const size_t wanted = axis == 'H' ? d->Hq : axis == 'E' ? d->score_width : d->Ev;
    if (axis == 'b' || axis == 'd') {
        snprintf(words, 32, "%s", axis == 'b' ? "buckets" : "an odd number");
        return axis == 'b' ? size > 0 : size % 2 == 1;
    }
    snprintf(words, 32, "%zu", wanted);
    return size == wanted;
}

static attn_status check_table(const attn_run_reader *r, const char *place, const attn_tensor *t,
                               const char *axes) {
    char words[2][32], shape[128] = "none";
    const int rank = axes[1] ? 2 : 1;
    bool fits = t->rank == rank;
    for (int k = 0; k < rank; k++)
        fits &= axis_fits(&r->site->shape, axes[k], t->rank == rank ? t->dims[k] : 0, words[k]);
    if (fits && t->dtype <= ATTN_F64)
        return ATTN_OK;
    if (t->rank)
        attn_shape_text(t->dims, t->rank, shape, sizeof shape);
    return attn_run_refuse(r, fits ? ATTN_EDTYPE : ATTN_ESHAPE, place,
                           "expected a tensor of real numbers of shape [%s%s%s], found %s%s%s",
                           words[0], rank == 2 ? ", " : "", rank == 2 ? words[1] : "", shape,
                           t->rank ? " of " : "", t->rank ? attn_dtype_name(t->dtype) : "");
}

attn_status attn_run_check_tables(const attn_run_reader *r) {
    const attn_inputs *in = &r->site->in;
    attn_status status = in->sinks.rank ? check_table(r, "sinks", &in->sinks, "H") : ATTN_OK;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && !status; i++) {
        const attn_tensor *t =
            (const attn_tensor *)(const void *)((const char *)&in->position + tables[i].offset);
        if (tables[i].kind == in->position.kind && (t->rank || !tables[i].optional))
            status = check_table(r, tables[i].place, t, tables[i].axes);
    }
    return status;
}

attn_status attn_run_check_axes(const attn_run_reader *r) {
    const attn_attention_dims *d = &r->site->shape;
    char shape[128];
    if (r->site->kernel || (d->B && d->Hq && d->E))
        return ATTN_OK;
    return attn_run_refuse(
        r, ATTN_ESHAPE, "query",
        "expected at least one sequence, one head and a width of 1, found %s",
        attn_shape_text(r->site->in.query.dims, r->site->in.query.rank, shape, sizeof shape));
}
