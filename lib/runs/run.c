/* An opened run: its file and its parts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "runs/private.h"

/* --- the file --- */

int attn_run_by_name(const void *a, const void *b) {
    const attn_named_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

const attn_tensor *attn_run_find_tensor(const attn_run *run, const char *name) {
    const attn_named_tensor key = {.name = name}, *wanted = &key;
    const attn_named_tensor **found =
        run->file.count
            ? bsearch(&wanted, run->by_name, run->file.count, sizeof *found, attn_run_by_name)
            : NULL;
    return found ? &(*found)->tensor : NULL;
}

const char *attn_run_metadata(const attn_run *run, const char *key) {
    for (size_t i = 0; i < run->file.metadata_count; i++)
        if (strcmp(run->file.metadata[i].key, key) == 0)
            return run->file.metadata[i].text;
    return NULL;
}

void attn_run_at_site(const attn_run_site *site, attn_error *err) {
    char place[32];
    if (!err || strncmp(err->where, "sites", 5) == 0)
        return;
    snprintf(place, sizeof place, "sites/%zu", (size_t)(site - site->run->sites));
    attn_error_within(err->code, place, err);
}

/* --- parts --- */

const attn_checksums *attn_run_checksums(const attn_run *run, const void **bytes) {
    *bytes = run->seal.bytes;
    return run->seal.version ? &run->seal.checksums : NULL;
}
const char *attn_run_model(const attn_run *run) {
    return run->model;
}
const attn_run_text *attn_run_texts(const attn_run *run, size_t *count) {
    *count = run->text_count;
    return run->texts;
}
size_t attn_run_site_count(const attn_run *run) {
    return run->site_count;
}
const attn_run_site_info *attn_run_site_info_of(const attn_run *run, size_t index) {
    return &run->sites[index].info;
}
const attn_attention_dims *attn_run_site_shape(const attn_run *run, size_t index) {
    return &run->sites[index].shape;
}

size_t attn_run_site_index(const attn_run_site *site) {
    return (size_t)(site - site->run->sites);
}

#define NAME(name, text) text,
const char *const attn_run_kind_words[] = {ATTN_RUN_KIND_LIST(NAME) NULL};
#undef NAME

const char *attn_run_kind_name(attn_run_kind kind) {
    return (unsigned)kind < ATTN_RUN_KINDS ? attn_run_kind_words[kind] : NULL;
}

bool attn_run_same_stack(const attn_run_site_info *a, const attn_run_site_info *b) {
    return a->kind == b->kind && strcmp(a->stack ? a->stack : "", b->stack ? b->stack : "") == 0;
}

const attn_attention *attn_run_attention(const attn_run_site *site) {
    return site->op;
}
const attn_attention_dims *attn_run_dims(const attn_run_site *site) {
    return site->dims;
}
const attn_inputs *attn_run_inputs(const attn_run_site *site) {
    return &site->in;
}
const char *const *attn_run_query_labels(const attn_run_site *site, size_t batch) {
    const size_t own = site->own_labels ? batch * site->dims->L : 0;
    return site->query_labels ? site->query_labels + own : NULL;
}
const char *const *attn_run_key_labels(const attn_run_site *site, size_t batch) {
    const size_t own = site->own_labels ? batch * site->dims->S : 0;
    return site->key_labels ? site->key_labels + own : NULL;
}
const uint8_t *attn_run_query_special(const attn_run_site *site, size_t batch) {
    return site->query_special ? site->query_special[site->own_labels ? batch : 0] : NULL;
}
const uint8_t *attn_run_key_special(const attn_run_site *site, size_t batch) {
    return site->key_special ? site->key_special[site->own_labels ? batch : 0] : NULL;
}
size_t attn_run_label_entries(const attn_run_site *site) {
    const bool any = site->query_labels || site->key_labels;
    return site->own_labels ? site->dims->B : any;
}
const char *attn_run_blocks_words(const attn_run_site *site) {
    return site->blocks.words;
}
size_t attn_run_gathered(const attn_run *run) {
    return run->gathered;
}
bool attn_run_is_exact(const attn_run_site *site) {
    return site->exact;
}
const char *attn_run_words(const attn_run_site *site) {
    return site->words;
}
