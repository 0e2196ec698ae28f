/* Checks that the bytes of a mapped file are the bytes that were stored. Uses the checksums of the
 * file and, for an adopted file, also its mark (srv_file_mark). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "store/runs_table.h"

bool srv_runs_sum_from(srv_runs_entry *e, const void *summed) {
    e->summed = summed;
    e->checked = calloc(attn_checksums_count(e->sums.size) / 64 + 1, sizeof *e->checked);
    return e->checked != NULL;
}

attn_status srv_runs_take_sums(srv_runs_entry *e, attn_error *err) {
    ATTN_TRY(attn_checksums_read(e->side.sums, e->image_size, e->arena, &e->sums, err));
    return srv_runs_sum_from(e, e->image) ? ATTN_OK : attn_no_memory(err, "the stored run");
}

void srv_runs_adopt_again(srv_request *req, const char *id, const char *how) {
    srv_problem(req, SRV_RUN_CHANGED, NULL,
                "the file of run %s in captures_dir has changed: %s; adopt it again", id, how);
}

static bool refuse_block(srv_request *req, const srv_runs_entry *e, size_t block) {
    if (e->side.path)
        srv_runs_adopt_again(req, e->run.id, "its checksum is another one");
    else
        srv_problem(req, SRV_DAMAGED, NULL,
                    "the file of run %s is damaged: the bytes from %zu on are not those that were "
                    "stored",
                    e->run.id, block * ATTN_CHECKSUM_BLOCK);
    return false;
}

/* The blocks [at, end) that contain the bytes. */
typedef struct blocks {
    size_t at, end;
} blocks;

static blocks blocks_of(const srv_runs_entry *e, const void *from, size_t bytes) {
    const uintptr_t at = (uintptr_t)from - (uintptr_t)e->summed;
    if (!bytes || at >= e->sums.size)
        return (blocks){0, 0};
    const size_t end = bytes < e->sums.size - at ? at + bytes : e->sums.size;
    return (blocks){at / ATTN_CHECKSUM_BLOCK, (end - 1) / ATTN_CHECKSUM_BLOCK + 1};
}

static bool is_checked(const srv_runs_entry *e, size_t block) {
    const uint64_t word = atomic_load_explicit(&e->checked[block / 64], memory_order_relaxed);
    return word >> block % 64 & 1;
}

static bool check_block(const srv_runs_entry *e, size_t block) {
    const uint64_t bit = (uint64_t)1 << block % 64;
    if (!attn_checksums_block_is_right(&e->sums, e->summed, block))
        return false;
    atomic_fetch_or_explicit(&e->checked[block / 64], bit, memory_order_relaxed);
    return true;
}

bool srv_run_check(srv_request *req, const srv_run *run, const void *from, size_t bytes) {
    const srv_runs_entry *e = run->entry;
    const blocks all = blocks_of(e, from, bytes);
    attn_error err = {0};
    for (size_t i = all.at; i < all.end; i++) {
        if (is_checked(e, i))
            continue;
        if (!check_block(e, i))
            return refuse_block(req, e, i);
        if (attn_control_check(&req->control, &err))
            return srv_problem_error(req, &err);
    }
    return true;
}

bool srv_run_is_right(const srv_run *run, const void *from, size_t bytes) {
    const srv_runs_entry *e = run->entry;
    const blocks all = blocks_of(e, from, bytes);
    bool right = true;
    for (size_t i = all.at; i < all.end && right; i++)
        right = is_checked(e, i) || check_block(e, i);
    return right;
}

/* A file without checksums counts as changed after any write to it, because its bytes cannot be
 * checked. */
srv_mapped_state srv_runs_look_at(const srv_runs_entry *e) {
    srv_mapped_times seen;
    const srv_mapped_state state = srv_mapped_check(e->mapped, &seen);
    if (state == SRV_MAPPED_SAME || state == SRV_MAPPED_HURT)
        return state;
    bool right = state != SRV_MAPPED_WRITTEN || e->sums.size;
    for (size_t i = 0; right && i < attn_checksums_count(e->sums.size); i++)
        right = !is_checked(e, i) || attn_checksums_block_is_right(&e->sums, e->summed, i);
    if (!right || state == SRV_MAPPED_OTHER)
        return right ? SRV_MAPPED_OTHER : SRV_MAPPED_WRITTEN;
    srv_mapped_accept(e->mapped, &seen);
    return SRV_MAPPED_SAME;
}

size_t srv_runs_header_size(const srv_runs_entry *e) {
    unsigned char lead[8]; /* the length of the header, little-endian */
    uint64_t size = 0;
    if (e->image_size < sizeof lead)
        return e->image_size;
    memcpy(lead, e->image, sizeof lead);
    for (size_t i = sizeof lead; i-- > 0;)
        size = size << 8 | lead[i];
    const size_t rest = e->image_size - sizeof lead;
    return sizeof lead + (size < rest ? (size_t)size : rest);
}

bool srv_runs_check_header(srv_request *req, const srv_runs_entry *e) {
    return srv_run_check(req, &e->run, e->image, 1) &&
           srv_run_check(req, &e->run, e->image, srv_runs_header_size(e));
}

bool srv_runs_is_same(srv_request *req, const srv_runs_entry *e) {
    srv_capture file;
    if (!e->side.path)
        return true;
    const int failed = srv_runs_dir_open_adopted(&req->app->runs->dir, &e->side, &file);
    if (!failed)
        srv_capture_close(&file);
    else if (failed == ESTALE)
        srv_runs_adopt_again(req, e->run.id, "it is not the file that was adopted");
    else
        srv_problem_file(req, NULL, "the file of the run cannot be opened in captures_dir", failed);
    return !failed;
}
