/* One analysis is run: measures in one pass, then what is said about them; pairs of heads. */
#include "api/analyses_call.h"
#include "request/shared.h"

/* Bytes of text: of a head with its measures and pattern, of a class of a head, of a number. */
#define TEXT_OF_HEAD   4096.0
#define TEXT_OF_CLASS  160.0
#define TEXT_OF_NUMBER 16.0
#define TEXT_OF_REST   16384.0 /* legend, diagnoses */

const char *const srv_analysis_items[] = {
    "entropy",   "confidence", "distance",  "positional", "local",    "sink",    "received",
    "duplicate", "induction",  "structure", "blocks",     "scores",   "classes", "patterns",
    "pairs",     "diagnoses",  "all",       "rollout",    "gradient", NULL};
const char *const srv_analysis_items_run[] = {
    "entropy",  "confidence", "distance",  "positional", "local",  "sink",
    "received", "duplicate",  "induction", "structure",  "blocks", "scores",
    "classes",  "patterns",   "pairs",     "diagnoses",  "all",    NULL};

static bool wants_pairs(const srv_analysis *an) {
    return (an->items & (SRV_AN_PAIRS | SRV_AN_DIAGNOSES)) != 0 && an->H > 1;
}

static bool fail(const srv_analysis *an, const attn_error *err) {
    srv_problem_error(an->req, err);
    return false;
}

static double text_of(const srv_analysis *an) {
    const attn_measure_options *o = &an->options;
    double heads = (double)an->B * (double)an->H;
    double numbers = (double)o->segment_count * (double)o->segment_count + 5 * (double)o->top_keys;
    double text = heads * (TEXT_OF_HEAD + TEXT_OF_CLASS * (double)(o->class_count + 2) +
                           TEXT_OF_NUMBER * numbers);
    if (an->items & SRV_AN_PAIRS)
        text += 3 * TEXT_OF_NUMBER * heads * (double)an->H;
    return text + TEXT_OF_REST + 64 * heads;
}

bool srv_analysis_cost(const srv_analysis *an, size_t slots, attn_cost *out, double *text) {
    attn_error err = {0};
    attn_cost all, pairs = {0};
    attn_measure_options o = an->options;
    o.class_count += 2; /* that labels may show */
    if (attn_measure_cost(&o, an->B, an->H, an->L, an->S, slots, &all, &err) ||
        (wants_pairs(an) &&
         attn_head_distances_cost(an->B, an->H, 0, an->L, an->S, slots, &pairs, &err)))
        return fail(an, &err);
    if (!attn_size_add(all.work_bytes, pairs.work_bytes, &all.work_bytes) ||
        !attn_size_add(all.result_bytes, pairs.result_bytes, &all.result_bytes)) {
        srv_problem(an->req, SRV_TOO_LARGE, NULL, "its size is beyond what can be counted");
        return false;
    }
    all.operations += pairs.operations;
    *out = all;
    *text = text_of(an);
    return true;
}

/* Of them a heatmap takes for a weight, and bytes that a number takes. */
#define OPERATIONS_OF_CELL 10.0
#define TEXT_OF_NUMBER     16.0

void srv_analysis_load(const attn_cost *cost, double text, srv_load *load) {
    load->units[SRV_UNIT_HEATMAP] += cost->operations / OPERATIONS_OF_CELL;
    load->units[SRV_UNIT_NUMBER] += text / TEXT_OF_NUMBER;
}

static attn_status name_patterns(srv_analysis *an, attn_error *err) {
    attn_arena *arena = an->req->arena;
    an->patterns = attn_arena_zeroed(arena, an->measures.count, sizeof *an->patterns);
    if (!an->patterns)
        return attn_fail(err, ATTN_ENOMEM, "", "no memory left for the names of patterns");
    attn_status status = ATTN_OK;
    for (size_t i = 0; !status && i < an->measures.count; i++)
        status =
            attn_name_pattern(&an->measures.items[i], &an->options, arena, &an->patterns[i], err);
    return status;
}

static attn_status diagnose(srv_analysis *an, attn_error *err) {
    const attn_diagnose_input in = {.measures = &an->measures,
                                    .distances = an->pairs,
                                    .mask_warnings = an->mask_warnings,
                                    .run = an->run,
                                    .layers = an->layers,
                                    .layered = an->layered,
                                    .L = an->L,
                                    .S = an->S};
    return attn_diagnose(&in, an->req->arena, &an->diagnoses, err);
}

attn_status srv_analysis_run(srv_analysis *an, attn_pool *pool, attn_error *err) {
    srv_request *req = an->req;
    an->options.mask = an->mask;
    if (!srv_analysis_words(an))
        return attn_fail(err, ATTN_ENOMEM, "labels", "no memory left for the words of labels");
    attn_status status = attn_measure_heads(&an->source, &an->options, pool, &req->control,
                                            req->arena, &an->measures, err);
    if (!status && (an->items & SRV_AN_PATTERNS))
        status = name_patterns(an, err);
    if (!status && wants_pairs(an))
        status = attn_head_distances_measure(&an->source, an->mask, NULL, NULL, pool, &req->control,
                                             req->arena, &an->pairs, err);
    if (!status && (an->items & SRV_AN_DIAGNOSES))
        status = diagnose(an, err);
    return status;
}
