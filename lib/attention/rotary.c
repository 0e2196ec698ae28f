/* Compiles rotary positions (rotary.h): checks their parameters, computes the frequency of each
 * pair and scales it, and rotates rows. */
#include "attention/rotary.h"

#include <math.h>

#include "attention/position_checks.h"
#include "base/element.h"
#include "base/try.h"

#define SCALING "position/scaling"

static double or_else(double given, double standard) {
    return given != 0 ? given : standard;
}

/* --- checks --- */

static attn_status check_layout(const attn_position *p, attn_error *err) {
    if (p->rotary == ATTN_ROTARY_UNSTATED)
        return attn_fail(
            err, ATTN_EARG, "position/layout",
            "say which coordinates form a pair: \"interleaved\" (0 and 1, 2 and 3, …; the "
            "paper) or \"halves\" (0 and dims/2, …; GPT-NeoX)");
    if ((unsigned)p->rotary > ATTN_ROTARY_HALVES)
        return attn_fail(err, ATTN_EARG, "position/layout", "there is no layout of the number %d",
                         (int)p->rotary);
    return ATTN_OK;
}

/* Checks start, dims and frequencies, and sets out->pairs. */
static attn_status count_pairs(const attn_position *p, size_t width, attn_rotary_rule *out,
                               attn_error *err) {
    if (p->start < 0 || (size_t)p->start > width)
        return attn_fail(err, ATTN_EARG, "position/start",
                         "expected a coordinate up to the width %zu, found %lld", width,
                         (long long)p->start);
    const size_t rest = width - (size_t)p->start;
    const attn_tensor *list = p->axes.pairs.rank ? &p->axes.pairs : &p->frequencies;
    const int64_t listed = list->rank == 1 ? 2 * (int64_t)list->dims[0] : 0;
    const int64_t dims = p->dims ? p->dims : listed ? listed : (int64_t)rest;
    if (dims < 0 || (size_t)dims > rest || dims % 2)
        return attn_fail(
            err, ATTN_EARG,
            p->dims || !listed   ? "position/dims"
            : p->axes.pairs.rank ? "position/axes"
                                 : "position/frequencies",
            "rotary positions turn pairs: expected an even number up to the width %zu, "
            "found %lld",
            rest, (long long)dims);
    out->pairs = (size_t)dims / 2;
    if (p->axes.pairs.rank && dims != listed)
        return attn_fail(err, ATTN_EARG, "position/dims",
                         "expected twice the %lld pairs of the axes, found %lld",
                         (long long)listed / 2, (long long)dims);
    return p->frequencies.rank ? attn_position_check(&p->frequencies, "position/frequencies", 1, 0,
                                                     out->pairs, "", err)
                               : ATTN_OK;
}

static attn_status check_numbers(const attn_position *p, attn_error *err) {
    if (!(p->base >= 0) || isinf(p->base) || (p->base != 0 && p->base <= 1))
        return attn_fail(err, ATTN_EARG, "position/base", "expected a number above 1, found %g",
                         p->base);
    if (!(p->factor >= 0) || isinf(p->factor))
        return attn_fail(err, ATTN_EARG, "position/factor", "expected a number above 0, found %g",
                         p->factor);
    if (p->frequencies.rank && p->base != 0)
        return attn_fail(err, ATTN_EARG, "position/base",
                         "frequencies stand in place of the base: send one of them");
    if (p->frequencies.rank && p->scaling.kind)
        return attn_fail(err, ATTN_EARG, SCALING,
                         "the scaling computes frequencies: send it or frequencies");
    for (size_t x = 0; p->axes.bases.rank && x < p->axes.bases.dims[0]; x++) {
        const double base = attn_tensor_number(&p->axes.bases, x, 0);
        if (base != 0 && (!(base > 1) || isinf(base)))
            return attn_fail(err, ATTN_EARG, "position/axes/bases",
                             "expected numbers above 1, found %g", base);
        if (base != 0 && (p->frequencies.rank || p->scaling.kind))
            return attn_fail(err, ATTN_EARG, "position/axes/bases",
                             "frequencies and scaling give the frequencies of all axes: leave out "
                             "the bases of axes");
    }
    return ATTN_OK;
}

static attn_status check_scaling(const attn_rotary_scaling *s, attn_error *err) {
    if (s->kind > ATTN_SCALING_LONGROPE)
        return attn_fail(err, ATTN_EARG, SCALING "/kind", "there is no scaling of the number %d",
                         (int)s->kind);
    if (!(s->factor == 0 || s->factor >= 1) || isinf(s->factor))
        return attn_fail(err, ATTN_EARG, SCALING "/factor", "expected 1 or more, found %g",
                         s->factor);
    if (s->kind != ATTN_SCALING_LINEAR && s->original_max_position_embeddings < 2)
        return attn_fail(err, ATTN_EARG, SCALING "/original_max_position_embeddings",
                         "this scaling needs the length of the texts of the training, 2 or more");
    const double others[] = {s->beta_fast,       s->beta_slow,       s->mscale,
                             s->mscale_all_dim,  s->low_freq_factor, s->high_freq_factor,
                             s->attention_factor};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!(others[i] >= 0) || isinf(others[i]))
            return attn_fail(err, ATTN_EARG, SCALING, "expected numbers above 0, found %g",
                             others[i]);
    if (s->kind == ATTN_SCALING_LLAMA3 &&
        or_else(s->high_freq_factor, 4) <= or_else(s->low_freq_factor, 1))
        return attn_fail(err, ATTN_EARG, SCALING "/high_freq_factor",
                         "expected a number above low_freq_factor, %g, found %g",
                         or_else(s->low_freq_factor, 1), or_else(s->high_freq_factor, 4));
    return ATTN_OK;
}

/* --- scaled frequencies, in the float32 arithmetic of transformers --- */

/* Returns base^(2t/dims). */
static float wavelength(double base, size_t t, size_t pairs) {
    return (float)pow((double)(float)base, (double)((float)(2 * t) / (float)(2 * pairs)));
}

/* Returns the pair, a real number, that turns `turns` times within the original length. */
static double pair_of_turns(const attn_rotary_scaling *s, double turns, double base, size_t pairs) {
    const double length = (double)s->original_max_position_embeddings;
    return (double)(2 * pairs) * log(length / (turns * 2 * M_PI)) / (2 * log(base));
}

static void scale_yarn(const attn_rotary_scaling *s, double base, size_t pairs, double *to) {
    double low = pair_of_turns(s, or_else(s->beta_fast, 32), base, pairs);
    double high = pair_of_turns(s, or_else(s->beta_slow, 1), base, pairs);
    low = fmax(s->rounded_off ? low : floor(low), 0);
    high = fmin(s->rounded_off ? high : ceil(high), (double)(2 * pairs) - 1);
    high += low == high ? 0.001 : 0;
    for (size_t t = 0; t < pairs; t++) {
        const float wave = wavelength(base, t, pairs);
        const float ramp = ((float)t - (float)low) / (float)(high - low);
        const float keep = 1 - fminf(fmaxf(ramp, 0), 1);
        to[t] = (double)(1 / ((float)or_else(s->factor, 1) * wave) * (1 - keep) + 1 / wave * keep);
    }
}

static void scale_llama3(const attn_rotary_scaling *s, double base, size_t pairs, double *to) {
    const float factor = (float)or_else(s->factor, 1);
    const float length = (float)s->original_max_position_embeddings;
    const float least = (float)or_else(s->low_freq_factor, 1);
    const float most = (float)or_else(s->high_freq_factor, 4);
    for (size_t t = 0; t < pairs; t++) {
        const float theta = 1 / wavelength(base, t, pairs), wave = (float)(2 * M_PI) / theta;
        const float part = (length / wave - least) / (most - least);
        to[t] = wave > length / least  ? (double)(theta / factor)
                : wave < length / most ? (double)theta
                                       : (double)((1 - part) * theta / factor + part * theta);
    }
}

/* Returns the base of the frequencies: the given base, or the one that dynamic scaling computes. */
static double scaled_base(const attn_position *p, size_t pairs, double length) {
    const double base = or_else(p->base, 10000), dims = (double)(2 * pairs);
    const double f = or_else(p->scaling.factor, 1);
    const double most = (double)p->scaling.original_max_position_embeddings;
    if (p->scaling.kind != ATTN_SCALING_DYNAMIC)
        return base;
    return base * pow(f * fmax(length, most) / most - (f - 1), dims / (dims - 2));
}

static void fill_scaled(const attn_position *p, double length, size_t pairs, double *to) {
    const attn_rotary_scaling *s = &p->scaling;
    const double base = scaled_base(p, pairs, length);
    const bool far = length > (double)s->original_max_position_embeddings;
    if (s->kind == ATTN_SCALING_YARN) {
        scale_yarn(s, base, pairs, to);
        return;
    }
    if (s->kind == ATTN_SCALING_LLAMA3) {
        scale_llama3(s, base, pairs, to);
        return;
    }
    for (size_t t = 0; t < pairs; t++) {
        const float wave = wavelength(base, t, pairs);
        const attn_tensor *divisors = far ? &s->long_factor : &s->short_factor;
        if (s->kind == ATTN_SCALING_LONGROPE)
            to[t] = (double)(1 / ((float)attn_tensor_number(divisors, t, 0) * wave));
        else if (s->kind == ATTN_SCALING_LINEAR)
            to[t] = (double)(1 / wave / (float)or_else(s->factor, 1));
        else
            to[t] = (double)(1 / wave);
    }
}

/* Computes the frequencies of the pairs whose axes have a base of their own. */
static void fill_own_bases(const attn_rotary_axes *axes, const attn_rotary_rule *rule, double *to) {
    size_t count[ATTN_ROTARY_AXES] = {0}, seen[ATTN_ROTARY_AXES] = {0};
    for (size_t t = 0; t < rule->pairs; t++)
        count[rule->axis[t]]++;
    for (size_t t = 0; t < rule->pairs; t++) {
        const size_t x = rule->axis[t];
        const double base = attn_tensor_number(&axes->bases, x, 0);
        if (base != 0)
            to[t] = (double)(1 / wavelength(base, seen[x], count[x]));
        seen[x]++;
    }
}

/* Returns the factor of cosines and sines that belongs to the scaling. */
static double attention_factor(const attn_rotary_scaling *s) {
    const double growth = log(or_else(s->factor, 1));
    if (s->attention_factor != 0 ||
        (s->kind != ATTN_SCALING_YARN && s->kind != ATTN_SCALING_LONGROPE))
        return or_else(s->attention_factor, 1);
    if (s->kind == ATTN_SCALING_LONGROPE)
        return sqrt(1 + growth / log((double)s->original_max_position_embeddings));
    return s->mscale != 0 && s->mscale_all_dim != 0
               ? (0.1 * s->mscale * growth + 1) / (0.1 * s->mscale_all_dim * growth + 1)
               : 0.1 * growth + 1;
}

/* --- compiling --- */

static attn_status check_rotary(const attn_position *p, size_t width, attn_rotary_rule *out,
                                attn_error *err) {
    const attn_rotary_scaling *s = &p->scaling;
    ATTN_TRY(check_layout(p, err));
    ATTN_TRY(check_numbers(p, err));
    ATTN_TRY(count_pairs(p, width, out, err));
    if (s->kind)
        ATTN_TRY(check_scaling(s, err));
    if (s->kind == ATTN_SCALING_DYNAMIC && out->pairs == 1)
        return attn_fail(err, ATTN_EARG, SCALING "/kind",
                         "dynamic scaling needs two pairs or more");
    if (s->kind != ATTN_SCALING_LONGROPE)
        return ATTN_OK;
    ATTN_TRY(
        attn_position_check(&s->short_factor, SCALING "/short_factor", 1, 0, out->pairs, "", err));
    return attn_position_check(&s->long_factor, SCALING "/long_factor", 1, 0, out->pairs, "", err);
}

attn_status attn_rotary_new(const attn_position *p, size_t width, double length, attn_arena *arena,
                            attn_rotary_rule *out, attn_error *err) {
    *out = (attn_rotary_rule){.first = (size_t)p->start};
    ATTN_TRY(check_rotary(p, width, out, err));
    const bool halves = p->rotary == ATTN_ROTARY_HALVES;
    double *to = attn_arena_zeroed(arena, out->pairs, sizeof *to);
    ATTN_TAKEN(to, "positions", err);
    if (p->axes.pairs.rank) {
        ATTN_TRY(attn_rotary_axes_new(&p->axes, arena, out, err));
        length = attn_rotary_axes_length(&p->axes, out);
    }
    for (size_t t = 0; t < out->pairs; t++)
        to[t] = p->frequencies.rank
                    ? attn_tensor_number(&p->frequencies, t, 0)
                    : pow(or_else(p->base, 10000), -2.0 * (double)t / (double)(2 * out->pairs));
    if (p->scaling.kind || (out->axes && !p->frequencies.rank))
        fill_scaled(p, length, out->pairs, to);
    if (p->axes.bases.rank)
        fill_own_bases(&p->axes, out, to);
    out->frequencies = to;
    out->stride = halves ? 1 : 2;
    out->step = halves ? out->pairs : 1;
    out->single =
        p->frequencies.rank ? p->frequencies.dtype != ATTN_F64 : p->scaling.kind || out->axes;
    out->factor = or_else(p->factor, 1) * (p->scaling.kind ? attention_factor(&p->scaling) : 1);
    return ATTN_OK;
}

/* --- rows --- */

void attn_rotary_angles(const attn_rotary_rule *rule, const double *at, double *cosines,
                        double *sines) {
    for (size_t t = 0; t < rule->pairs; t++) {
        const double theta = rule->frequencies[t], position = at[rule->axis ? rule->axis[t] : 0];
        if (isinf(position)) {
            cosines[t] = sines[t] = INFINITY;
            continue;
        }
        const double angle =
            rule->single ? (double)((float)position * (float)theta) : position * theta;
        cosines[t] = rule->factor * cos(angle);
        sines[t] = rule->factor * sin(angle);
    }
}

void attn_rotary_rotate(const attn_rotary_rule *rule, void *row, size_t elem, const double *cosines,
                        const double *sines) {
    for (size_t t = 0; t < rule->pairs; t++) {
        const size_t x = rule->first + rule->stride * t, y = x + rule->step;
        if (isinf(cosines[t]))
            continue;
        const double a = attn_element(row, elem, x), b = attn_element(row, elem, y);
        attn_element_set(row, elem, x, a * cosines[t] - b * sines[t]);
        attn_element_set(row, elem, y, a * sines[t] + b * cosines[t]);
    }
}

void attn_rotary_frequency_gradient(const attn_rotary_rule *rule, const double *at,
                                    const void *rotated, const void *gradient, size_t elem,
                                    double *sums) {
    for (size_t t = 0; t < rule->pairs; t++) {
        const size_t x = rule->first + rule->stride * t, y = x + rule->step;
        const double position = at[rule->axis ? rule->axis[t] : 0];
        if (isinf(position))
            continue;
        sums[t] += position * (attn_element(gradient, elem, y) * attn_element(rotated, elem, x) -
                               attn_element(gradient, elem, x) * attn_element(rotated, elem, y));
    }
}
