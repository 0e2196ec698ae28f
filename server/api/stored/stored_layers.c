/* Selects sites of a run by number or name, or by kind, stack and layer, and lists the layers of
 * the selected sites. */
#include "api/stored/stored_api.h"

#include <stdlib.h>
#include <string.h>

#include "request/shared.h"

size_t srv_run_site_named(const attn_run *run, const char *text) {
    const size_t n = attn_run_site_count(run);
    char *end;
    for (size_t i = 0; i < n; i++)
        if (strcmp(attn_run_site_info_of(run, i)->name, text) == 0)
            return i;
    const unsigned long number = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : n;
    return number < n && !*end ? number : SIZE_MAX;
}

bool srv_run_site_selected(const srv_scope *scope, const attn_run *run, size_t index,
                           const srv_run_spot *spot) {
    const attn_run_site_info *info = attn_run_site_info_of(run, index);
    const size_t axis = attn_run_site_layers(run, index), layers = axis ? axis : 1;
    const size_t layer = (size_t)spot->layer;
    return (!srv_given(scope, "layer") || (layer >= info->layer && layer - info->layer < layers)) &&
           (!srv_given(scope, "kind") || spot->kind == (int)info->kind) &&
           (!spot->stack || (info->stack && strcmp(spot->stack, info->stack) == 0));
}

bool srv_run_no_site(const srv_scope *scope, const attn_run *run, const char *name,
                     const char *text) {
    return srv_refuse(scope, SRV_VALUE, name,
                      "expected the name of a site or its number, from 0 to %zu (the first is "
                      "called \"%.64s\"), found \"%.64s\"",
                      attn_run_site_count(run) - 1, attn_run_site_info_of(run, 0)->name, text);
}

bool srv_run_sites(const srv_scope *scope, const attn_run *run, const srv_run_spot *spot,
                   size_t **out, size_t *count) {
    const size_t n = attn_run_site_count(run);
    size_t *sites = attn_arena_zeroed(scope->req->arena, n, sizeof *sites), found = 0;
    if (!sites)
        return srv_problem_memory(scope->req, NULL, "no memory is left for the sites of the run");
    if (spot->site) {
        sites[found++] = srv_run_site_named(run, spot->site);
        if (sites[0] == SIZE_MAX)
            return srv_run_no_site(scope, run, "site", spot->site);
    }
    for (size_t i = 0; i < n && !spot->site; i++)
        if (srv_run_site_selected(scope, run, i, spot))
            sites[found++] = i;
    *out = sites;
    *count = found;
    return found > 0 || srv_refuse(scope, SRV_VALUE, srv_run_selector(scope),
                                   "the run has no such site; GET /v1/runs/{id} lists what it "
                                   "has (%zu)",
                                   n);
}

const char *srv_run_selector(const srv_scope *scope) {
    return srv_given(scope, "layer") ? "layer" : srv_given(scope, "stack") ? "stack" : "kind";
}

bool srv_run_one_stack(const srv_scope *scope, const attn_run *run, const size_t *sites,
                       size_t count) {
    const attn_run_site_info *first = attn_run_site_info_of(run, sites[0]);
    for (size_t i = 1; i < count; i++) {
        const attn_run_site_info *info = attn_run_site_info_of(run, sites[i]);
        if (attn_run_same_stack(info, first))
            continue;
        const char *by = info->kind == first->kind ? "stack" : "kind";
        return srv_refuse(
            scope, SRV_VALUE, by,
            "layers of one kind and stack follow each other, and \"%.48s\" (%s%s%.48s) "
            "and \"%.48s\" (%s%s%.48s) are of several: choose one by %s, or a site",
            first->name, attn_run_kind_name(first->kind), first->stack ? ", " : "",
            first->stack ? first->stack : "", info->name, attn_run_kind_name(info->kind),
            info->stack ? ", " : "", info->stack ? info->stack : "", by);
    }
    return true;
}

bool srv_run_layers(const srv_scope *scope, const attn_run *run, const srv_run_spot *spot,
                    attn_run_layers *out) {
    size_t *sites, count, kept = 0;
    attn_error err = {0};
    if (!srv_run_sites(scope, run, spot, &sites, &count) ||
        !srv_run_one_stack(scope, run, sites, count))
        return false;
    if (attn_run_layers_of(run, sites, count, scope->req->arena, out, &err))
        return srv_problem_error(scope->req, &err);
    if (!srv_given(scope, "layer"))
        return true;
    for (size_t i = 0; i < out->count; i++)
        if (out->items[i].number == (size_t)spot->layer)
            out->items[kept++] = out->items[i];
    out->count = kept;
    return kept > 0 ||
           srv_refuse(scope, SRV_VALUE, "layer", "the site has no layer %zu", (size_t)spot->layer);
}

bool srv_run_layers_are_known(const attn_run *run, const attn_run_layers *layers) {
    return layers->named || layers->batches <= 1 || attn_run_site_count(run) > 1;
}

typedef struct toucher {
    srv_request *req;
    const srv_run *run;
} toucher;

static bool check_part(void *ctx, const void *from, size_t bytes) {
    const toucher *t = ctx;
    return srv_run_check(t->req, t->run, from, bytes);
}

bool srv_run_touch(srv_request *req, const srv_run_view *run, size_t batch, size_t head) {
    toucher t = {req, run->held};
    return attn_run_visit(run->site, batch, head, check_part, &t);
}

bool srv_run_touch_layers(srv_request *req, const srv_run_view *run, const attn_run_layers *l) {
    srv_run_view view = *run;
    bool ok = true;
    for (size_t i = 0; i < l->count && ok; i++) {
        view.site = l->items[i].site;
        for (size_t b = 0; b < l->batches && ok; b++)
            ok = srv_run_touch(req, &view, l->items[i].first + b, SIZE_MAX);
    }
    return ok;
}
