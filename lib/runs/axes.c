/* The names of the axes of a site's weights in front of L and S. Only names say whether an axis
 * counts layers or sequences: [12, 2, H, L, S] may be 12 layers of 2 sequences, or 24 sequences. */
#include <attn/text.h>
#include <string.h>

#include "runs/private.h"

/* The names if none are given: "batch" for every axis but the heads. A site with n batch axes takes
 * the names from usual[ATTN_MAX_RANK - n] on. */
static const char *const usual[ATTN_MAX_RANK + 1] = {"batch", "batch", "batch", "batch", "batch",
                                                     "batch", "batch", "batch", "head"};

_Static_assert(ATTN_MAX_RANK == 8, "`usual` names the axes of the largest rank");

static size_t axes_of(const attn_attention_dims *d) {
    return (size_t)d->batch_rank + d->has_heads;
}

void attn_run_axes_usual(const attn_attention_dims *d, attn_run_site_info *info) {
    if (info->axes)
        return;
    info->axes = usual + ATTN_MAX_RANK - d->batch_rank;
    info->axis_count = axes_of(d);
}

/* The names that an axis may have, by the result of choice_of. */
static const char *const choices[] = {"\"head\"", "\"layer\" or \"batch\"", "\"batch\""};

static size_t choice_of(const attn_attention_dims *d, size_t i) {
    return d->has_heads && i + 1 == axes_of(d) ? 0 : i == 0 ? 1 : 2;
}

static bool fits(size_t choice, const char *name) {
    return choice == 0 ? strcmp(name, "head") == 0
                       : strcmp(name, "batch") == 0 || (choice == 1 && strcmp(name, "layer") == 0);
}

attn_status attn_run_axes_check(const attn_attention_dims *d, const char *const *axes, size_t count,
                                attn_error *err) {
    const size_t expected = axes_of(d);
    char shape[128];
    if (count != expected)
        return attn_fail(err, ATTN_ESHAPE, "axes",
                         "expected %zu name%s, one for each axis of the weights %s in front of the "
                         "last two, found %zu",
                         expected, attn_plural(expected),
                         attn_shape_text(d->weights, d->weights_rank, shape, sizeof shape), count);
    for (size_t i = 0; i < count; i++)
        if (!fits(choice_of(d, i), axes[i]))
            return attn_fail(err, ATTN_EARG, "axes",
                             "expected %s for axis %zu, found \"%.32s\"; only the first axis can "
                             "be that of the layers, and the last one is \"head\" if the weights "
                             "have heads",
                             choices[choice_of(d, i)], i, axes[i]);
    return ATTN_OK;
}

size_t attn_run_site_layers(const attn_run *run, size_t index) {
    const attn_run_site *site = &run->sites[index];
    const bool named = site->info.axis_count && strcmp(site->info.axes[0], "layer") == 0;
    return named ? site->shape.batch[0] : 0;
}

size_t attn_run_site_entries(const attn_run *run, size_t index) {
    const size_t layers = attn_run_site_layers(run, index), B = run->sites[index].shape.B;
    return layers ? B / layers : B;
}
