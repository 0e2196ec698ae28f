/* The score forms (score_forms.h). Each form has a line in the list ATTN_SCORE_FORMS of
 * attn/forms.h, and here a plan function and a constant <name>_form. The macro FORM makes the name
 * of the constant from the name in the list. */
#include "attention/score_forms.h"

#include <stdint.h>
#include <stdio.h>

#include "base/try.h"

/* Checks that the parameter t is present, holds floating-point numbers and has the shape [rows]
 * (rank 1) or [rows, cols] (rank 2). SIZE_MAX allows any size. Errors name the parameter
 * "score/<name>". */
static attn_status check_parameter(const attn_tensor *t, const char *name, int rank, size_t rows,
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
    attn_found_text(t, have, sizeof have);
    if (rank == 1)
        return attn_fail(err, ATTN_ESHAPE, where, "expected shape [%zu], found %s", rows, have);
    if (rows == SIZE_MAX)
        return attn_fail(err, ATTN_ESHAPE, where, "expected shape [A, %zu], found %s", cols, have);
    return attn_fail(err, ATTN_ESHAPE, where, "expected shape [%zu, %zu], found %s", rows, cols,
                     have);
}

/* Checks the parameter v. Its shape is [A], or [1, A], which is the shape in a linear layer with
 * one output. Sets *out to a view of v with the shape [A]. */
static attn_status check_vector(const attn_tensor *v, size_t A, attn_tensor *out, attn_error *err) {
    *out = *v;
    if (v->rank == 2 && v->dims[0] == 1) {
        out->rank = 1;
        out->dims[0] = v->dims[1];
        out->strides[0] = v->strides[1];
    }
    return check_parameter(out, "v", 1, A, 0, err);
}

/* Plans q . k, with queries and keys as they are. The scale 1/sqrt(E) gives Vaswani et al.,
 * "Attention is all you need", 2017, equation 1. The scale 1 gives Luong, Pham and Manning,
 * "Effective approaches to attention-based neural machine translation", 2015, equation 8, "dot". */
static attn_status plan_dot(const attn_score *score, size_t Eq, size_t Ek, attn_score_plan *out,
                            attn_error *err) {
    (void)score;
    *out = (attn_score_plan){.width = Eq};
    if (Eq == Ek)
        return ATTN_OK;
    return attn_fail(err, ATTN_ESHAPE, "key",
                     "the width of a head is %zu, expected %zu (as query has)", Ek, Eq);
}

static const attn_score_form scaled_dot_form = {.plan = plan_dot};
static const attn_score_form dot_form = {.unit_scale = true, .plan = plan_dot};

/* Plans v . tanh(W_q q + W_k k [+ b]): Bahdanau, Cho and Bengio, "Neural machine translation by
 * jointly learning to align and translate", 2015, appendix A.1.2. */
static attn_status plan_additive(const attn_score *score, size_t Eq, size_t Ek,
                                 attn_score_plan *out, attn_error *err) {
    ATTN_TRY(check_parameter(&score->w_q, "w_q", 2, SIZE_MAX, Eq, err));
    const size_t A = score->w_q.dims[0];
    attn_tensor v = {0};
    ATTN_TRY(check_parameter(&score->w_k, "w_k", 2, A, Ek, err));
    ATTN_TRY(check_vector(&score->v, A, &v, err));
    if (score->b.rank)
        ATTN_TRY(check_parameter(&score->b, "b", 1, A, 0, err));
    *out = (attn_score_plan){.width = A,
                             .query_map = score->w_q,
                             .key_map = score->w_k,
                             .query_bias = score->b,
                             .v = v,
                             .query_from = &score->w_q,
                             .key_from = &score->w_k};
    return ATTN_OK;
}

static const attn_score_form additive_form = {.unit_scale = true, .plan = plan_additive};

/* Plans k . (W q): Luong, Pham and Manning, 2015, equation 8, "general". */
static attn_status plan_general(const attn_score *score, size_t Eq, size_t Ek, attn_score_plan *out,
                                attn_error *err) {
    *out = (attn_score_plan){.width = Ek, .query_map = score->w, .query_from = &score->w};
    return check_parameter(&score->w, "w", 2, Ek, Eq, err);
}

static const attn_score_form general_form = {.unit_scale = true, .plan = plan_general};

/* Returns a view of columns from … from + count - 1 of a matrix. */
static attn_tensor columns_of(const attn_tensor *w, size_t from, size_t count) {
    attn_tensor part = *w;
    part.dims[1] = count;
    part.data =
        (char *)w->data + (ptrdiff_t)from * w->strides[1] * (ptrdiff_t)attn_dtype_size(w->dtype);
    return part;
}

/* Plans v . tanh(W [k ; q]): Luong, Pham and Manning, 2015, equation 8, "concat". This is the
 * additive score with W_k = the first Ek columns of W and W_q = the other Eq columns. */
static attn_status plan_concat(const attn_score *score, size_t Eq, size_t Ek, attn_score_plan *out,
                               attn_error *err) {
    size_t both;
    if (!attn_size_add(Ek, Eq, &both))
        return attn_fail(err, ATTN_ELIMIT, "score/w", "too wide");
    ATTN_TRY(check_parameter(&score->w, "w", 2, SIZE_MAX, both, err));
    *out = (attn_score_plan){.width = score->w.dims[0],
                             .query_map = columns_of(&score->w, Ek, Eq),
                             .key_map = columns_of(&score->w, 0, Ek),
                             .query_from = &score->w,
                             .key_from = &score->w,
                             .query_column = Ek};
    return check_vector(&score->v, out->width, &out->v, err);
}

static const attn_score_form concat_form = {.unit_scale = true, .plan = plan_concat};

#define FORM(name) &name##_form,
static const attn_score_form *const forms[] = {ATTN_SCORE_FORMS(FORM)};

#define TEXT(name) #name,
const char *const attn_score_words[] = {ATTN_SCORE_FORMS(TEXT) NULL};

const char *attn_score_name(attn_score_kind kind) {
    return kind < ATTN_SCORE_COUNT ? attn_score_words[kind] : NULL;
}

const attn_score_form *attn_score_form_of(attn_score_kind kind) {
    return forms[kind];
}
