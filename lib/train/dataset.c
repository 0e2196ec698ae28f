/* Datasets of sentence pairs as word ids, padded batches of them, and the batches of an epoch. */
#include <stdlib.h>
#include <string.h>

#include "attn/rng.h"
#include "base/try.h"
#include "train/training.h"

enum { PAIR_BYTES = 16 << 20 }; /* limit of the memory for the tokens of one pair */

attn_dataset_kind attn_dataset_kind_of(const attn_model_config *c) {
    return !attn_model_has_decoder(c)   ? ATTN_DATA_CLASSES
           : !attn_model_has_encoder(c) ? ATTN_DATA_SENTENCES
                                        : ATTN_DATA_PAIRS;
}

/* The data from which the pairs of a split are read as ids. */
typedef struct reading {
    const attn_corpus *corpus;
    attn_split split;
    uint64_t first; /* pair 0 of the dataset is pair `first` of the split */
    attn_dataset_kind kind;
    const attn_tokenizer *tokenizers[2]; /* tokenizers of source and target */
    attn_pair *pair;
    attn_arena *scratch; /* holds the tokens of one pair */
} reading;

/* Stores the links of the pair in `to` as links between tokens: each token of a word has the links
 * of the word. They are in the order of target tokens. If `to` is NULL, stores nothing. Returns the
 * number of links between tokens. */
static size_t spread_links(const attn_pair *pair, const attn_pair_tokens sides[2], attn_link *to) {
    size_t count = 0;
    for (size_t t = 0; t < sides[1].count; t++)
        for (size_t s = 0; s < sides[0].count; s++)
            for (size_t k = 0; k < pair->link_count; k++) {
                const attn_link *link = &pair->links[k];
                if (link->target != sides[1].words[t] || link->source != sides[0].words[s])
                    continue;
                if (to)
                    to[count] = (attn_link){(uint16_t)s, (uint16_t)t, link->sure};
                count++;
            }
    return count;
}

/* Sets out->ids to the classes of the source's tokens. The class of source word i is target word i.
 * Each token of a source word has the class of the word. */
static attn_status read_classes(const reading *r, const attn_pair_tokens *source,
                                attn_pair_tokens *out, attn_error *err) {
    const attn_pair *p = r->pair;
    *out = *source;
    out->ids = attn_arena_zeroed(r->scratch, source->count + 1, sizeof *out->ids);
    ATTN_TAKEN(out->ids, "the words of a pair", err);
    if (p->source_count != p->target_count)
        return attn_fail(err, ATTN_EARG, "task",
                         "an encoder alone learns one word for each word of its source: expected "
                         "word-classes, copy, reverse or sort");
    for (size_t i = 0; i < source->count; i++) {
        const char *word = p->target[source->words[i]];
        out->ids[i] = attn_tokenizer_id(r->tokenizers[1], word, strlen(word));
    }
    return ATTN_OK;
}

static attn_status read_side(const reading *r, bool target, size_t tokenizer, attn_pair_tokens *out,
                             attn_error *err) {
    return attn_pair_read(r->pair, target, r->tokenizers[tokenizer], r->scratch, out, err);
}

static attn_status read_pair(const reading *r, size_t i, attn_pair_tokens sides[2],
                             attn_error *err) {
    attn_arena_reset(r->scratch);
    ATTN_TRY(attn_corpus_pair(r->corpus, r->split, r->first + i, r->pair, err));
    if (r->kind == ATTN_DATA_SENTENCES) {
        sides[0] = (attn_pair_tokens){.count = 0};
        return read_side(r, false, 1, &sides[1], err);
    }
    ATTN_TRY(read_side(r, false, 0, &sides[0], err));
    return r->kind == ATTN_DATA_CLASSES ? read_classes(r, &sides[0], &sides[1], err)
                                        : read_side(r, true, 1, &sides[1], err);
}

/* Reads all pairs and stores where the tokens and links of each pair begin. If the dataset has
 * arrays for tokens and links, fills these too. */
static attn_status walk(const reading *r, attn_dataset *out, attn_error *err) {
    size_t s = 0, t = 0, links = 0;
    for (size_t i = 0; i < out->count; i++) {
        attn_pair_tokens sides[2];
        ATTN_TRY(read_pair(r, i, sides, err));
        out->source_at[i] = s, out->target_at[i] = t, out->link_at[i] = links;
        if (out->source)
            memcpy(out->source + s, sides[0].ids, sides[0].count * sizeof *out->source);
        if (out->target)
            memcpy(out->target + t, sides[1].ids, sides[1].count * sizeof *out->target);
        s += sides[0].count, t += sides[1].count;
        if (r->kind == ATTN_DATA_PAIRS)
            links += spread_links(r->pair, sides, out->links ? out->links + links : NULL);
    }
    out->source_at[out->count] = s, out->target_at[out->count] = t;
    out->link_at[out->count] = links;
    return ATTN_OK;
}

static attn_status read_all(const reading *r, attn_arena *arena, attn_dataset *d, attn_error *err) {
    ATTN_TRY(walk(r, d, err));
    d->source = attn_arena_zeroed(arena, d->source_at[d->count] + 1, sizeof *d->source);
    d->target = attn_arena_zeroed(arena, d->target_at[d->count] + 1, sizeof *d->target);
    d->links = attn_arena_zeroed(arena, d->link_at[d->count] + 1, sizeof *d->links);
    ATTN_TAKEN(d->source && d->target && d->links, "the words of a dataset", err);
    return walk(r, d, err);
}

attn_status attn_dataset_new(const attn_corpus *corpus, attn_split split, uint64_t first,
                             size_t count, attn_dataset_kind kind, const attn_tokenizer *source,
                             const attn_tokenizer *target, attn_arena *arena, attn_dataset *out,
                             attn_error *err) {
    attn_dataset d = {.kind = kind,
                      .count = count,
                      .pad = attn_tokenizer_special(target, ATTN_SPECIAL_PAD),
                      .begin = attn_tokenizer_special(target, ATTN_SPECIAL_BEGIN),
                      .end = attn_tokenizer_special(target, ATTN_SPECIAL_END)};
    reading r = {.corpus = corpus,
                 .split = split,
                 .first = first,
                 .kind = kind,
                 .tokenizers = {source, target},
                 .pair = attn_arena_zeroed(arena, 1, sizeof *r.pair)};
    size_t ends;
    if (r.pair && attn_size_add(count, 1, &ends)) {
        d.source_at = attn_arena_zeroed(arena, ends, sizeof *d.source_at);
        d.target_at = attn_arena_zeroed(arena, ends, sizeof *d.target_at);
        d.link_at = attn_arena_zeroed(arena, ends, sizeof *d.link_at);
    }
    r.scratch = attn_arena_new(PAIR_BYTES);
    attn_status status =
        d.source_at && d.target_at && d.link_at && r.scratch
            ? read_all(&r, arena, &d, err)
            : attn_fail(err, ATTN_ENOMEM, "dataset", "no memory for %zu pairs", count);
    attn_arena_free(r.scratch);
    if (!status)
        *out = d;
    return status;
}

static size_t source_length(const attn_dataset *d, size_t i) {
    return d->source_at[i + 1] - d->source_at[i];
}

static size_t target_length(const attn_dataset *d, size_t i) {
    return d->target_at[i + 1] - d->target_at[i];
}

/* Fills `alignment` [T, S], which must be zeros, from the `count` links of one pair. The links are
 * in the order of target tokens. */
static void share_links(const attn_link *links, size_t count, float *alignment, size_t S) {
    for (size_t from = 0, to = 0; from < count; from = to) {
        size_t sure = 0;
        for (to = from; to < count && links[to].target == links[from].target; to++)
            sure += links[to].sure;
        for (size_t i = from; i < to; i++)
            if (links[i].sure || !sure)
                alignment[links[i].target * S + links[i].source] =
                    1 / (float)(sure ? sure : to - from);
    }
}

/* Returns n ids, all of them padding. NULL: memory ran out. */
static int32_t *padding(const attn_dataset *data, size_t n, attn_arena *arena) {
    int32_t *ids = attn_arena_zeroed(arena, n, sizeof *ids);
    for (size_t i = 0; ids && data->pad && i < n; i++)
        ids[i] = data->pad;
    return ids;
}

/* Allocates the arrays of a batch of n sequences of b->S source and b->T target tokens. If b->S or
 * b->T is 0, the batch has no arrays of sources or targets. */
static attn_status take_batch(const attn_dataset *data, size_t n, attn_arena *arena, attn_batch *b,
                              int64_t **lengths, float **alignment, attn_error *err) {
    const size_t width = data->kind == ATTN_DATA_CLASSES ? b->S : b->T;
    b->B = n;
    b->expected = padding(data, n * width, arena);
    bool ok = b->expected;
    if (b->S) {
        b->source = padding(data, n * b->S, arena);
        b->source_lengths = *lengths = attn_arena_zeroed(arena, n, sizeof **lengths);
        ok = ok && b->source && b->source_lengths;
    }
    if (b->T) {
        b->target = padding(data, n * b->T, arena);
        ok = ok && b->target;
    }
    if (data->kind == ATTN_DATA_PAIRS) {
        b->alignment = *alignment = attn_arena_zeroed(arena, n * b->T * b->S, sizeof **alignment);
        ok = ok && b->alignment;
    }
    return ok ? ATTN_OK : attn_fail(err, ATTN_ENOMEM, "batch", "no memory for %zu pairs", n);
}

/* Writes sequence i of the batch. Target: the begin token and the `count` ids. Expected: the ids
 * and the end token. */
static void place_target(const attn_dataset *data, const attn_batch *b, size_t i,
                         const int32_t *ids, size_t count) {
    int32_t *target = (int32_t *)(uintptr_t)b->target + i * b->T;
    int32_t *expected = (int32_t *)(uintptr_t)b->expected + i * b->T;
    memcpy(expected, ids, count * sizeof *ids);
    memcpy(target + 1, ids, count * sizeof *ids);
    target[0] = data->begin;
    expected[count] = data->end;
}

/* Sets b->S and b->T of a batch. */
static attn_status measure_batch(const attn_dataset *data, const size_t *indices, size_t n,
                                 attn_batch *b, attn_error *err) {
    *b = (attn_batch){.S = data->kind != ATTN_DATA_SENTENCES, .T = data->kind != ATTN_DATA_CLASSES};
    for (size_t i = 0; i < n; i++) {
        if (indices[i] >= data->count)
            return attn_fail(err, ATTN_EARG, "batch", "pair %zu is outside: there are %zu, from 0",
                             indices[i], data->count);
        size_t s = source_length(data, indices[i]), t = target_length(data, indices[i]) + 1;
        b->S = b->S && s > b->S ? s : b->S, b->T = b->T && t > b->T ? t : b->T;
    }
    return ATTN_OK;
}

attn_model_cost attn_batch_cost(const attn_model *model, size_t B, size_t S, size_t T,
                                attn_model_pass pass, size_t slots) {
    const attn_model_config *c = attn_model_configuration(model);
    const double n = (double)B, s = (double)S, t = (double)T;
    pass.B = attn_model_has_encoder(c) ? B : 0;
    pass.S = S;
    pass.rows = attn_model_has_decoder(c) ? B : 0;
    pass.T = T;
    pass.beams = 1;
    attn_model_cost cost = attn_model_pass_cost(model, &pass, slots);
    cost.bytes += 4 * n * (s + 2 * t + s * t + 2);
    return cost;
}

attn_status attn_batch_begin(const attn_model *model, attn_model_pass pass, size_t slots,
                             const attn_dataset *data, const size_t *indices, size_t n,
                             attn_arena *arena, attn_batch *out, attn_error *err) {
    attn_batch b;
    ATTN_TRY(measure_batch(data, indices, n, &b, err));
    const double bytes = attn_batch_cost(model, n, b.S, b.T, pass, slots).bytes;
    attn_arena_reset(arena);
    if (!(bytes < (double)attn_arena_limit(arena)) || !attn_arena_reserve(arena, (size_t)bytes))
        return attn_fail(err, ATTN_ENOMEM, "batch", "no memory for a pass over %zu pairs", n);
    return attn_dataset_batch(data, indices, n, arena, out, err);
}

attn_status attn_dataset_batch(const attn_dataset *data, const size_t *indices, size_t n,
                               attn_arena *arena, attn_batch *out, attn_error *err) {
    attn_batch b;
    int64_t *lengths = NULL;
    float *alignment = NULL;
    ATTN_TRY(measure_batch(data, indices, n, &b, err));
    ATTN_TRY(take_batch(data, n, arena, &b, &lengths, &alignment, err));
    for (size_t i = 0; i < n; i++) {
        const size_t at = indices[i], s = source_length(data, at), t = target_length(data, at);
        const int32_t *ids = data->target + data->target_at[at];
        if (b.S) {
            memcpy((int32_t *)(uintptr_t)b.source + i * b.S, data->source + data->source_at[at],
                   s * sizeof *b.source);
            lengths[i] = (int64_t)(s ? s : 1);
        }
        if (b.T)
            place_target(data, &b, i, ids, t);
        else
            memcpy((int32_t *)(uintptr_t)b.expected + i * b.S, ids, t * sizeof *ids);
        const size_t first = data->link_at[at], end = data->link_at[at + 1];
        if (alignment)
            share_links(data->links + first, end - first, alignment + i * b.T * b.S, b.S);
    }
    *out = b;
    return ATTN_OK;
}

/* Shuffles by Fisher and Yates with the random numbers first + 2 … first + n of the seed. */
static void shuffle(size_t *items, size_t n, uint64_t seed, uint64_t first) {
    for (size_t i = n; i > 1; i--) {
        size_t k = (size_t)(attn_rng_uniform(seed, first + i) * (double)i), kept = items[i - 1];
        items[i - 1] = items[k];
        items[k] = kept;
    }
}

/* An item to sort: a pair, its length, and its index in the shuffled order, which decides between
 * equal lengths. */
typedef struct sort_item {
    size_t length, place, pair;
} sort_item;

static int by_length(const void *a, const void *b) {
    const sort_item *x = a, *y = b;
    return x->length != y->length ? (x->length > y->length) - (x->length < y->length)
                                  : (x->place > y->place) - (x->place < y->place);
}

static void sort_group(const attn_dataset *data, size_t *order, size_t n, sort_item *scratch) {
    for (size_t i = 0; i < n; i++)
        scratch[i] =
            (sort_item){source_length(data, order[i]) + target_length(data, order[i]), i, order[i]};
    qsort(scratch, n, sizeof *scratch, by_length);
    for (size_t i = 0; i < n; i++)
        order[i] = scratch[i].pair;
}

/* Divides the sorted pairs into batches. Stores the end of each batch in `ends` and returns the
 * number of batches. */
static size_t cut(const attn_dataset *data, const size_t *order, size_t tokens, size_t *ends) {
    size_t batches = 0, begin = 0, S = 0, T = 0;
    for (size_t i = 0; i < data->count; i++) {
        size_t s = source_length(data, order[i]), t = target_length(data, order[i]) + 1;
        size_t widest = (s > S ? s : S) + (t > T ? t : T);
        if (i > begin && (i + 1 - begin) * widest > tokens) {
            ends[batches++] = i;
            begin = i, S = T = 0;
        }
        S = s > S ? s : S, T = t > T ? t : T;
    }
    if (data->count)
        ends[batches++] = data->count;
    return batches;
}

attn_status attn_epoch_new(const attn_dataset *data, size_t tokens, uint64_t seed, uint64_t epoch,
                           attn_arena *arena, attn_epoch *out, attn_error *err) {
    size_t n = data->count, *order = attn_arena_zeroed(arena, n + 1, sizeof *order);
    size_t *sorted = attn_arena_zeroed(arena, n + 1, sizeof *sorted);
    size_t *ends = attn_arena_zeroed(arena, n + 1, sizeof *ends);
    size_t *shuffled = attn_arena_zeroed(arena, n + 1, sizeof *shuffled);
    size_t *starts = attn_arena_zeroed(arena, n + 2, sizeof *starts);
    sort_item *scratch = attn_arena_zeroed(arena, n + 1, sizeof *scratch);
    ATTN_TAKEN(order && sorted && ends && shuffled && starts && scratch, "the order of an epoch",
               err);
    uint64_t stream = attn_rng_bits(seed, epoch);
    for (size_t i = 0; i < n; i++)
        sorted[i] = i;
    shuffle(sorted, n, stream, 0);
    size_t words = n ? (data->source_at[n] + data->target_at[n]) / n + 1 : 1;
    size_t group = ATTN_GROUP_BATCHES * (tokens / words + 1);
    for (size_t i = 0; i < n; i += group)
        sort_group(data, sorted + i, n - i < group ? n - i : group, scratch);
    size_t batches = cut(data, sorted, tokens, ends), at = 0;
    for (size_t b = 0; b < batches; b++)
        shuffled[b] = b;
    shuffle(shuffled, batches, stream, (uint64_t)1 << 40);
    for (size_t b = 0; b < batches; b++) {
        size_t from = shuffled[b] ? ends[shuffled[b] - 1] : 0, size = ends[shuffled[b]] - from;
        memcpy(order + at, sorted + from, size * sizeof *order);
        at += size;
        starts[b + 1] = at;
    }
    *out = (attn_epoch){order, starts, batches};
    return ATTN_OK;
}
