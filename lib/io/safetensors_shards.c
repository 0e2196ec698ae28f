/* A container of safetensors in several files (shards), and the index that states which file has
 * which tensor. */
#include <stdlib.h>
#include <string.h>

#include "attn/safetensors.h"
#include "base/try.h"
#include "io/growing_list.h"
#include "json/json_scan.h"

#define ENDING ".safetensors"

enum { MOST_FILES = 4096 };

typedef struct attn_shard_entry shard_entry;

/* --- the index --- */

/* Moves the cursor behind the value at it. */
static bool skip_value(attn_scan *s) {
    const char *from, *to;
    bool escaped, more;
    attn_scan_space(s);
    const char open = attn_scan_peek(s);
    if (open == '"')
        return attn_scan_string(s, &from, &to, &escaped);
    if (open != '{' && open != '[') {
        while (s->p < s->end && !strchr(",]} \t\r\n", *s->p))
            s->p++;
        return true;
    }
    const char close = open == '{' ? '}' : ']';
    if (!attn_scan_open(s, close, &more))
        return false;
    while (more) {
        if (open == '{' &&
            (!attn_scan_string(s, &from, &to, &escaped) || !attn_scan_mark(s, ':', "':'")))
            return false;
        if (!skip_value(s) || !attn_scan_more(s, close, &more))
            return false;
    }
    return true;
}

static bool is_shard_name(const char *name) {
    const size_t n = strlen(name), end = strlen(ENDING);
    return n > end && name[0] != '.' && !strchr(name, '/') && strcmp(name + n - end, ENDING) == 0;
}

/* Finds the index of a file in the list, and appends the file if it is new. Tensors of a file
 * usually follow each other, so the last file is compared first. */
static bool find_file(attn_scan *s, attn_io_list *files, const char *name, size_t *place) {
    const char *const *known = files->items;
    for (*place = files->count; (*place)-- > 0;)
        if (strcmp(known[*place], name) == 0)
            return true;
    if (files->count == MOST_FILES)
        return attn_scan_fail(s, ATTN_ELIMIT, s->p, "expected at most %d files", MOST_FILES);
    const char **added = attn_io_append(files, s->arena);
    if (!added)
        return attn_scan_memory(s);
    *added = name;
    *place = files->count - 1;
    return true;
}

static bool read_map(attn_scan *s, attn_io_list *files, attn_io_list *entries) {
    bool more;
    attn_scan_space(s);
    if (attn_scan_peek(s) != '{')
        return attn_scan_expected(s, "'{' and names of files by name of the tensor");
    if (!attn_scan_open(s, '}', &more))
        return false;
    while (more) {
        const char *file;
        shard_entry *e = attn_io_append(entries, s->arena);
        if (!e)
            return attn_scan_memory(s);
        if (!attn_scan_text(s, &e->name) || !attn_scan_mark(s, ':', "':'") ||
            !attn_scan_text(s, &file))
            return false;
        if (!is_shard_name(file))
            return attn_scan_fail(s, ATTN_EARG, s->p,
                                  "expected the name of a file in the same folder that ends in "
                                  "\"" ENDING "\", found \"%.64s\" for the tensor %.64s",
                                  file, e->name);
        if (!find_file(s, files, file, &e->file) || !attn_scan_more(s, '}', &more))
            return false;
    }
    return true;
}

static bool read_index(attn_scan *s, attn_io_list *files, attn_io_list *entries) {
    bool more, seen = false;
    attn_name name;
    attn_scan_space(s);
    if (attn_scan_peek(s) != '{')
        return attn_scan_expected(s, "'{'");
    if (!attn_scan_open(s, '}', &more))
        return false;
    while (more) {
        if (!attn_scan_name(s, &name) || !attn_scan_mark(s, ':', "':'"))
            return false;
        const bool map = attn_name_is(&name, "weight_map");
        if (map && seen)
            return attn_scan_expected(s, "weight_map once");
        seen = seen || map;
        if (!(map ? read_map(s, files, entries) : skip_value(s)) || !attn_scan_more(s, '}', &more))
            return false;
    }
    return attn_scan_end(s) && (seen || attn_scan_expected(s, "a member weight_map"));
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const shard_entry *)a)->name, ((const shard_entry *)b)->name);
}

attn_status attn_shard_index_read(const char *text, size_t size, attn_arena *arena,
                                  attn_shard_index *out, attn_error *err) {
    enum { DEPTH = 16 };
    attn_io_list files = {.each = sizeof(char *)}, entries = {.each = sizeof(shard_entry)};
    attn_scan s = {.start = text,
                   .p = text,
                   .end = text + size,
                   .arena = arena,
                   .of = "the index",
                   .err = err,
                   .max_depth = DEPTH};
    if (!read_index(&s, &files, &entries))
        return s.status;
    shard_entry *all = entries.items;
    if (entries.count > 1)
        qsort(all, entries.count, sizeof *all, by_name);
    for (size_t i = 1; i < entries.count; i++)
        if (by_name(&all[i - 1], &all[i]) == 0)
            return attn_fail(err, ATTN_EARG, all[i].name, "the index names it twice");
    *out = (attn_shard_index){files.items, files.count, all, entries.count};
    return ATTN_OK;
}

/* --- the files --- */

/* Marks a tensor of file `file` as seen. It is an error if the index does not name the tensor in
 * this file. */
static attn_status mark_seen(const attn_shard_index *index, const char *name, size_t file,
                             bool *seen, attn_error *err) {
    const shard_entry wanted = {.name = name};
    const shard_entry *found =
        index->count ? bsearch(&wanted, index->entries, index->count, sizeof wanted, by_name)
                     : NULL;
    if (!found)
        return attn_fail(err, ATTN_EARG, name, "the file %.64s has it, but the index does not",
                         index->files[file]);
    if (found->file != file)
        return attn_fail(err, ATTN_EARG, name, "the index says that it is in %.64s, found in %.64s",
                         index->files[found->file], index->files[file]);
    seen[found - index->entries] = true;
    return ATTN_OK;
}

attn_status attn_shards_join(const attn_shard_index *index, const attn_safetensors *parts,
                             attn_arena *arena, attn_safetensors *out, attn_error *err) {
    attn_safetensors all = {0};
    size_t count = 0, unusable = 0;
    for (size_t f = 0; f < index->file_count; f++) {
        count += parts[f].count;
        unusable += parts[f].unusable_count;
    }
    all.tensors = attn_arena_array(arena, count + 1, sizeof *all.tensors);
    all.unusable = attn_arena_array(arena, unusable + 1, sizeof *all.unusable);
    bool *seen = attn_arena_zeroed(arena, index->count + 1, sizeof *seen);
    ATTN_TAKEN(all.tensors && all.unusable && seen, "the tensors of all files", err);
    for (size_t f = 0; f < index->file_count; f++) {
        for (size_t i = 0; i < parts[f].count; i++) {
            ATTN_TRY(mark_seen(index, parts[f].tensors[i].name, f, seen, err));
            all.tensors[all.count++] = parts[f].tensors[i];
        }
        for (size_t i = 0; i < parts[f].unusable_count; i++) {
            ATTN_TRY(mark_seen(index, parts[f].unusable[i].name, f, seen, err));
            all.unusable[all.unusable_count++] = parts[f].unusable[i];
        }
    }
    for (size_t i = 0; i < index->count; i++)
        if (!seen[i])
            return attn_fail(err, ATTN_EARG, index->entries[i].name,
                             "the file %.64s does not have it",
                             index->files[index->entries[i].file]);
    if (index->file_count) {
        all.metadata = parts[0].metadata;
        all.metadata_count = parts[0].metadata_count;
    }
    *out = all;
    return ATTN_OK;
}
