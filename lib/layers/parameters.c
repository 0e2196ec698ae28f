/* Parameter sets. Layers first declare their tensors. attn_parameters_seal then allocates one block
 * for all values and one for all gradients. The set owns both blocks; layers have pointers into
 * them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attn/rng.h"
#include "base/try.h"
#include "layers/layers.h"

/* Tensors begin at multiples of STEP floats. */
enum { STEP = ATTN_ALIGN / sizeof(float) };

/* A declared tensor, its initial values, and the weight of the layer that declared it. */
typedef struct declared {
    attn_parameter p;
    attn_init init;
    attn_weight *weight; /* filled by attn_parameters_seal */
} declared;

struct attn_parameters {
    declared *items;
    size_t length, room;
    size_t size; /* floats in each block */
    float *values, *gradients;
    attn_error fault; /* the first error of a declaration */
};

attn_parameters *attn_parameters_new(void) {
    attn_parameters *set = attn_alloc(sizeof *set);
    if (set)
        memset(set, 0, sizeof *set);
    return set;
}

void attn_parameters_free(attn_parameters *set) {
    if (!set)
        return;
    attn_free(set->items);
    attn_free(set->values);
    attn_free(set->gradients);
    attn_free(set);
}

static const attn_parameter *find(const attn_parameters *set, const char *name) {
    for (size_t i = 0; i < set->length; i++)
        if (!strcmp(set->items[i].p.name, name))
            return &set->items[i].p;
    return NULL;
}

static bool grow(attn_parameters *set) {
    if (set->length < set->room)
        return true;
    size_t room = set->room ? 2 * set->room : 32, bytes;
    declared *items = attn_size_mul(room, sizeof *items, &bytes) ? attn_alloc(bytes) : NULL;
    if (!items)
        return false;
    if (set->length)
        memcpy(items, set->items, set->length * sizeof *items);
    attn_free(set->items);
    set->items = items;
    set->room = room;
    return true;
}

static attn_status declare(attn_parameters *set, const char *name, int rank, const size_t *dims,
                           attn_init init, attn_weight *weight, attn_error *err) {
    attn_parameter p = {.rank = rank, .count = 1, .offset = set->size};
    size_t end, bytes;
    if (strlen(name) >= sizeof p.name)
        return attn_fail(err, ATTN_EARG, name, "a parameter's name has at most %zu bytes",
                         sizeof p.name - 1);
    if (rank < 0 || rank > ATTN_PARAMETER_RANK)
        return attn_fail(err, ATTN_EARG, name, "a parameter has at most %d axes, found %d",
                         ATTN_PARAMETER_RANK, rank);
    if ((unsigned)init.kind > ATTN_INIT_NORMAL)
        return attn_fail(err, ATTN_EARG, name, "there is no initial kind of the number %d",
                         (int)init.kind);
    if (set->values)
        return attn_fail(err, ATTN_EARG, name, "the set is sealed");
    if (find(set, name))
        return attn_fail(err, ATTN_EARG, name, "two parameters have this name");
    snprintf(p.name, sizeof p.name, "%s", name);
    for (int a = 0; a < rank; a++) {
        p.dims[a] = dims[a];
        if (!attn_size_mul(p.count, dims[a], &p.count))
            return attn_fail(err, ATTN_ELIMIT, name, "its number of elements overflows");
    }
    if (!attn_size_add(set->size, p.count, &end) || !attn_size_add(end, STEP - 1, &end) ||
        !attn_size_mul(end, sizeof(float), &bytes))
        return attn_fail(err, ATTN_ELIMIT, name, "the parameters' size overflows");
    ATTN_TAKEN(grow(set), "the names of the parameters", err);
    set->items[set->length++] = (declared){p, init, weight};
    set->size = end / STEP * STEP;
    return ATTN_OK;
}

void attn_parameters_add(attn_parameters *set, const char *name, int rank, const size_t *dims,
                         attn_init init, attn_weight *weight) {
    *weight = (attn_weight){.value = NULL};
    if (set->fault.code == ATTN_OK)
        declare(set, name, rank, dims, init, weight, &set->fault);
}

static float *block(size_t size) {
    float *values = attn_alloc(size * sizeof *values);
    if (values)
        memset(values, 0, size * sizeof *values);
    return values;
}

static attn_status check_open(const attn_parameters *set, attn_error *err) {
    if (set->fault.code)
        return attn_fail(err, set->fault.code, set->fault.where, "%s", set->fault.text);
    if (set->values)
        return attn_fail(err, ATTN_EARG, "", "the set is sealed");
    return ATTN_OK;
}

attn_status attn_parameters_seal_views(attn_parameters *set, const attn_weight_view *views,
                                       attn_error *err) {
    ATTN_TRY(check_open(set, err));
    set->size = 0;
    for (size_t i = 0; i < set->length; i++) {
        attn_parameter *p = &set->items[i].p;
        p->offset = views[i].format ? SIZE_MAX : set->size;
        set->size += views[i].format ? 0 : (p->count + STEP - 1) / STEP * STEP;
    }
    ATTN_TAKEN((set->values = block(set->size)), "the parameters", err);
    for (size_t i = 0; i < set->length; i++) {
        const declared *d = &set->items[i];
        if (views[i].format)
            d->weight->view = views[i];
        else
            d->weight->value = set->values + d->p.offset;
    }
    return ATTN_OK;
}

attn_status attn_parameters_seal(attn_parameters *set, bool gradients, attn_error *err) {
    ATTN_TRY(check_open(set, err));
    set->values = block(set->size);
    set->gradients = gradients ? block(set->size) : NULL;
    ATTN_TAKEN(set->values && (!gradients || set->gradients), "the parameters", err);
    for (size_t i = 0; i < set->length; i++) {
        const declared *d = &set->items[i];
        d->weight->value = set->values + d->p.offset;
        d->weight->gradient = gradients ? set->gradients + d->p.offset : NULL;
    }
    return ATTN_OK;
}

static float drawn(const attn_init *init, uint64_t seed, size_t element) {
    switch (init->kind) {
    case ATTN_INIT_UNIFORM:
        return (float)(init->amount * (2 * attn_rng_uniform(seed, element) - 1));
    case ATTN_INIT_NORMAL:
        return (float)(init->amount * attn_rng_normal(seed, element));
    case ATTN_INIT_CONSTANT:
        break;
    }
    return (float)init->amount;
}

void attn_parameters_init(attn_parameters *set, uint64_t seed) {
    for (size_t i = 0; i < set->length; i++) {
        const attn_parameter *p = &set->items[i].p;
        const attn_init *init = &set->items[i].init;
        float *value = set->values + p->offset;
        uint64_t own = attn_rng_bits(seed, i);
        for (size_t e = 0; e < p->count; e++)
            value[e] = drawn(init, own, e);
        if (init->blank)
            memset(value + init->blank_row * p->dims[1], 0, p->dims[1] * sizeof *value);
    }
}

void attn_parameters_zero_gradients(attn_parameters *set) {
    if (set->gradients)
        memset(set->gradients, 0, set->size * sizeof *set->gradients);
}

size_t attn_parameters_size(const attn_parameters *set) {
    return set->size;
}
float *attn_parameters_values(attn_parameters *set) {
    return set->values;
}
float *attn_parameters_gradients(attn_parameters *set) {
    return set->gradients;
}
size_t attn_parameters_length(const attn_parameters *set) {
    return set->length;
}
const attn_parameter *attn_parameters_at(const attn_parameters *set, size_t index) {
    return &set->items[index].p;
}

static attn_tensor view(const attn_parameters *set, size_t index, float *of) {
    const attn_parameter *p = &set->items[index].p;
    const bool has = of && p->offset != SIZE_MAX;
    return attn_tensor_dense(has ? of + p->offset : NULL, ATTN_F32, p->rank, p->dims);
}

attn_tensor attn_parameters_value(const attn_parameters *set, size_t index) {
    return view(set, index, set->values);
}
attn_tensor attn_parameters_gradient(const attn_parameters *set, size_t index) {
    return view(set, index, set->gradients);
}

size_t attn_parameters_count(const attn_parameters *set, const char *part) {
    size_t count = 0, n = strlen(part);
    for (size_t i = 0; i < set->length; i++) {
        const char *name = set->items[i].p.name;
        if (!n || (!strncmp(name, part, n) && (name[n] == '.' || !name[n])))
            count += set->items[i].p.count;
    }
    return count;
}
