/* The table of score forms, made from the list in forms.h, and what forms share. */
#include "attention/score.h"

#include <stdint.h>
#include <stdio.h>

#define DECLARE(name) extern const attn_score_form attn_score_form_##name;
ATTN_SCORE_FORMS(DECLARE)

#define FORM(name) &attn_score_form_##name,
static const attn_score_form *const forms[] = {ATTN_SCORE_FORMS(FORM)};

#define TEXT(name) #name,
static const char *const names[] = {ATTN_SCORE_FORMS(TEXT)};

const char *attn_score_name(attn_score_kind kind) {
    return kind < ATTN_SCORE_COUNT ? names[kind] : NULL;
}

const attn_score_form *attn_score_form_of(attn_score_kind kind) {
    return forms[kind];
}

attn_status attn_score_parameter(const attn_tensor *t, const char *name, int rank, size_t rows,
                                 size_t cols, attn_error *err) {
    const size_t want[2] = {rows, cols};
    char where[64], have[128];
    snprintf(where, sizeof where, "score/%s", name);
    if (!t->rank)
        return attn_fail(err, ATTN_EARG, where, "this score form needs the parameter %s", name);
    if (t->dtype > ATTN_F64)
        return attn_fail(err, ATTN_EDTYPE, where, "expected floating-point numbers, found %s",
                         attn_dtype_name(t->dtype));
    bool fits = t->rank == rank;
    for (int a = 0; fits && a < rank; a++)
        fits = want[a] == SIZE_MAX || t->dims[a] == want[a];
    if (fits)
        return ATTN_OK;
    attn_shape_text(t->dims, t->rank, have, sizeof have);
    if (rank == 1)
        return attn_fail(err, ATTN_ESHAPE, where, "expected shape [%zu], found %s", rows, have);
    if (rows == SIZE_MAX)
        return attn_fail(err, ATTN_ESHAPE, where, "expected shape [A, %zu], found %s", cols, have);
    return attn_fail(err, ATTN_ESHAPE, where, "expected shape [%zu, %zu], found %s", rows, cols,
                     have);
}

attn_status attn_score_equal_widths(size_t Eq, size_t Ek, attn_error *err) {
    if (Eq == Ek)
        return ATTN_OK;
    return attn_fail(err, ATTN_ESHAPE, "key",
                     "the width of a head is %zu, expected %zu (as query has)", Ek, Eq);
}
