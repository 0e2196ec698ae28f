/* Lists the heads of several sites of a run. */
#include "api/stored/stored_api.h"

#include "request/shared.h"
#include "wire/answer.h"

enum { HEADS_MOST = 1 << 20 };

typedef struct finder {
    const srv_scope *scope;
    srv_run_view *run;
    const srv_heads_query *query;
    size_t *sites; /* [count] indices of the selected sites */
    size_t count;
    srv_run_heads all;
} finder;

/* Lists the sites that kind, stack and layer select. If the request has the field `sites`, only
 * these sites are considered, else all sites of the run. false: a problem is set, for example
 * because no site is selected. */
static bool find_sites(finder *f) {
    const attn_run *run = f->run->held->run;
    const srv_strings *names = &f->query->sites;
    const bool named = srv_given(f->scope, "sites");
    const size_t n = named ? names->count : attn_run_site_count(run);
    f->sites = attn_arena_zeroed(f->scope->req->arena, n + 1, sizeof *f->sites);
    if (!f->sites)
        return srv_problem_memory(f->scope->req, NULL,
                                  "no memory is left for the sites of the run");
    for (size_t i = 0; i < n; i++) {
        const size_t site = named ? srv_run_site_named(run, names->values[i]) : i;
        if (site == SIZE_MAX)
            return srv_run_no_site(f->scope, run, "sites", names->values[i]);
        if (srv_run_site_selected(f->scope, run, site, &f->query->spot))
            f->sites[f->count++] = site;
    }
    return f->count > 0 ||
           srv_refuse(f->scope, SRV_VALUE, named ? "sites" : srv_run_selector(f->scope),
                      "no site of the run is selected; GET /v1/runs/{id} lists them");
}

static bool is_layer(const finder *f, size_t number) {
    return !srv_given(f->scope, "layer") || (size_t)f->query->spot.layer == number;
}

/* Checks heads and batch entry of the request for a site, and sets *count to the number of selected
 * heads in each batch entry. false: a problem is set. */
static bool check_heads(const finder *f, size_t index, size_t *count) {
    const attn_run *run = f->run->held->run;
    const srv_ints *list = &f->query->heads.ints;
    const size_t Hq = attn_run_site_shape(run, index)->Ho;
    const size_t each = attn_run_site_entries(run, index);
    *count = f->query->heads.is == SRV_U_INTS ? list->count : Hq;
    for (size_t i = 0; f->query->heads.is == SRV_U_INTS && i < list->count; i++)
        if ((uint64_t)list->values[i] >= Hq)
            return srv_refuse(f->scope, SRV_VALUE, "heads",
                              "site %zu (\"%.48s\") has %zu head%s, counted from 0; found %lld",
                              index, attn_run_site_info_of(run, index)->name, Hq, attn_plural(Hq),
                              (long long)list->values[i]);
    if (srv_given(f->scope, "batch") && (uint64_t)f->query->spot.batch >= each)
        return srv_refuse(f->scope, SRV_VALUE, "batch",
                          "site %zu (\"%.48s\") has %zu batch entr%s%s, counted from 0; found %lld",
                          index, attn_run_site_info_of(run, index)->name, each, attn_plural_y(each),
                          attn_run_site_layers(run, index) ? " in a layer" : "",
                          (long long)f->query->spot.batch);
    return true;
}

/* Sets *out to the largest number of heads that the list can have. false: a problem is set. */
static bool count_heads(finder *f, size_t *out) {
    const attn_run *run = f->run->held->run;
    double all = 0;
    for (size_t i = 0; i < f->count; i++) {
        size_t heads;
        if (!check_heads(f, f->sites[i], &heads))
            return false;
        all += (double)attn_run_site_shape(run, f->sites[i])->B * (double)heads;
    }
    *out = all <= HEADS_MOST ? (size_t)all : 0;
    return all <= HEADS_MOST ||
           srv_refuse(f->scope, SRV_VALUE, "sites",
                      "%.0f heads are selected, at most %d are answered at once", all, HEADS_MOST);
}

/* Adds the selected heads of a batch entry and verifies their stored bytes. false: a problem is
 * set. */
static bool add_entry(finder *f, size_t index, size_t layer, size_t batch, size_t entry) {
    const srv_union *heads = &f->query->heads;
    const size_t n = heads->is == SRV_U_INTS ? heads->ints.count : attn_run_dims(f->run->site)->Ho;
    for (size_t i = 0; i < n; i++) {
        const size_t head = heads->is == SRV_U_INTS ? (size_t)heads->ints.values[i] : i;
        if (!srv_run_touch(f->scope->req, f->run, entry, head))
            return false;
        f->all.items[f->all.count++] =
            (srv_run_head){f->run->site, index, layer, batch, entry, head};
    }
    return true;
}

static bool add_site(finder *f, size_t index) {
    const attn_run *run = f->run->held->run;
    const size_t axis = attn_run_site_layers(run, index), each = attn_run_site_entries(run, index);
    const size_t first = attn_run_site_info_of(run, index)->layer;
    attn_error err = {0};
    bool ok = true;
    if (attn_run_site_open(run, index, &f->run->site, &err))
        return srv_problem_error(f->scope->req, &err);
    for (size_t n = 0; n < (axis ? axis : 1) && ok; n++)
        for (size_t b = 0; b < each && is_layer(f, first + n) && ok; b++)
            if (!srv_given(f->scope, "batch") || (size_t)f->query->spot.batch == b)
                ok = add_entry(f, index, first + n, b, n * each + b);
    return ok;
}

bool srv_run_find_heads(const srv_scope *scope, srv_run_view *run, const srv_heads_query *query,
                        srv_run_heads *out) {
    finder f = {.scope = scope, .run = run, .query = query};
    size_t count = 0;
    if (!find_sites(&f) || !count_heads(&f, &count))
        return false;
    f.all.items = attn_arena_zeroed(scope->req->arena, count + 1, sizeof *f.all.items);
    if (!f.all.items)
        return srv_problem_memory(scope->req, NULL, "no memory is left for the list of heads");
    for (size_t i = 0; i < f.count; i++)
        if (!add_site(&f, f.sites[i]))
            return false;
    *out = f.all;
    return true;
}

double srv_run_heads_bytes(const srv_run_heads *heads) {
    return (double)heads->count * (double)sizeof *heads->items;
}

const srv_field srv_run_head_rows[] = {
    SRV_ALWAYS("site", SRV_INT, srv_run_head, index, NULL),
    SRV_ALWAYS("layer", SRV_INT, srv_run_head, layer, NULL),
    SRV_ALWAYS("batch", SRV_INT, srv_run_head, batch, NULL),
    SRV_ALWAYS("head", SRV_INT, srv_run_head, head, NULL),
    {0},
};
