/* The initial projections of torch.nn.MultiheadAttention. One function declares the shapes, so that
 * a caller can compute the memory. Another function draws the values from a seed. */
#include <attn/projections.h>

#include <math.h>
#include <string.h>

#include <attn/rng.h>

#include "base/try.h"

enum { DRAWS_A_PIECE = 65536 }; /* numbers that a piece draws */

/* The matrices and biases of query, key, value and output, numbers 0 to 3. */
typedef struct matrices {
    attn_tensor *w[4], *b[4];
} matrices;

static matrices matrices_of(attn_projections *p) {
    return (matrices){{&p->w_q, &p->w_k, &p->w_v, &p->w_o}, {&p->b_q, &p->b_k, &p->b_v, &p->b_o}};
}

static attn_status check_absent(attn_projections *p, attn_error *err) {
    static const char *const names[2][4] = {
        {"projections/w_q", "projections/w_k", "projections/w_v", "projections/w_o"},
        {"projections/b_q", "projections/b_k", "projections/b_v", "projections/b_o"}};
    const matrices m = matrices_of(p);
    for (int i = 0; i < 4; i++)
        if (m.w[i]->rank || m.b[i]->rank)
            return attn_fail(err, ATTN_EARG, names[!m.w[i]->rank][i],
                             "seed makes all matrices and biases; leave out this tensor or seed");
    return ATTN_OK;
}

attn_status attn_projections_declare(const attn_inputs *in, attn_projections *p, attn_error *err) {
    const attn_tensor *q = &in->query, *k = in->key.rank ? &in->key : q;
    const attn_tensor *v = in->value.rank ? &in->value : k;
    const matrices m = matrices_of(p);
    ATTN_TRY(check_absent(p, err));
    if (!p->num_heads)
        return attn_fail(err, ATTN_EARG, "projections/num_heads", "expected at least 1 head");
    if (q->rank < 2 || k->rank < 2 || v->rank < 2)
        return attn_fail(err, ATTN_ESHAPE, "query",
                         "projections take query, key and value as [B, L, D] or [L, D]");
    const size_t D = q->dims[q->rank - 1];
    if (D == 0 || D % p->num_heads)
        return attn_fail(err, ATTN_ESHAPE, "projections/num_heads",
                         "the width %zu of query is not a multiple of the %zu heads", D,
                         p->num_heads);
    size_t kv;
    if (!attn_size_mul(D / p->num_heads, p->num_kv_heads ? p->num_kv_heads : p->num_heads, &kv))
        return attn_fail(err, ATTN_ELIMIT, "projections/num_kv_heads", "too many heads");
    const size_t out[4] = {D, kv, kv, D};
    const size_t wide[4] = {D, k->dims[k->rank - 1], v->dims[v->rank - 1], D};
    for (int i = 0; i < 4; i++) {
        *m.w[i] = attn_tensor_dense(NULL, ATTN_F32, 2, (size_t[]){out[i], wide[i]});
        *m.b[i] = attn_tensor_dense(NULL, ATTN_F32, 1, &out[i]);
    }
    return ATTN_OK;
}

/* --- values --- */

/* The numbers of one matrix: `count` numbers, uniform in ±bound. The first one is number `first` of
 * the seed. */
typedef struct draws {
    float *to;
    size_t count;
    uint64_t seed, first;
    double bound;
} draws;

static attn_status draw_piece(void *ctx, size_t index, size_t lane, attn_error *err) {
    const draws *d = ctx;
    const size_t from = index * DRAWS_A_PIECE, left = d->count - from;
    const size_t end = from + (left < DRAWS_A_PIECE ? left : DRAWS_A_PIECE);
    (void)lane, (void)err;
    for (size_t i = from; i < end; i++)
        d->to[i] = (float)(d->bound * (2 * attn_rng_uniform(d->seed, d->first + i) - 1));
    return ATTN_OK;
}

/* Returns the bound of matrix i. W_o has that of torch.nn.Linear, 1 / sqrt(fan_in). The others have
 * Xavier's, sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010, eq. 16). If all inputs are as
 * wide as the query, PyTorch draws W_q, W_k and W_v as one matrix, so fan_out counts the rows of
 * all three. */
static double bound_of(const matrices *m, int i) {
    const double in = (double)m->w[i]->dims[1];
    double rows = (double)m->w[i]->dims[0];
    if (i == 3)
        return 1 / sqrt(in);
    if (m->w[1]->dims[1] == m->w[0]->dims[1] && m->w[2]->dims[1] == m->w[0]->dims[1])
        rows = (double)m->w[0]->dims[0] + (double)m->w[1]->dims[0] + (double)m->w[2]->dims[0];
    return sqrt(6 / (in + rows));
}

attn_status attn_projections_draw(attn_projections *p, attn_pool *pool, const attn_control *control,
                                  attn_arena *arena, attn_error *err) {
    const matrices m = matrices_of(p);
    uint64_t first = 0;
    for (int i = 0; i < 4; i++) {
        size_t count = 0;
        m.b[i]->data = attn_arena_zeroed(arena, m.b[i]->dims[0], sizeof(float));
        if (attn_tensor_count(m.w[i], &count))
            m.w[i]->data = attn_arena_array(arena, count, sizeof(float));
        ATTN_TAKEN(m.w[i]->data && m.b[i]->data, "projections", err);
        draws d = {m.w[i]->data, count, p->seed, first, bound_of(&m, i)};
        ATTN_TRY(attn_pool_run(pool, count / DRAWS_A_PIECE + (count % DRAWS_A_PIECE != 0),
                               draw_piece, &d, control, err));
        first += count;
    }
    return ATTN_OK;
}
