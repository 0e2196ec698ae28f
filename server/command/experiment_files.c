/* Findings of an experiment as files: JSON, SVG and PNG. */
#include "command/experiment_files.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH = 4096 };
static const double scale = 2; /* PNG: pixels a unit */

typedef struct place {
    const char *folder, *name;
    FILE *say;
    attn_error *err;
} place;

static attn_status write_file(const place *p, const char *picture, const char *ending,
                              const void *data, size_t size) {
    char path[PATH];
    if (snprintf(path, sizeof path, "%s/%s%s%s.%s", p->folder, p->name, picture ? "-" : "",
                 picture ? picture : "", ending) >= PATH)
        return attn_fail(p->err, ATTN_EARG, "out", "the path is too long");
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(data, 1, size, f) == size;
    ok = f && !fclose(f) && ok;
    if (!ok)
        return attn_fail(p->err, ATTN_EARG, "out", "%.200s cannot be written: %s", path,
                         strerror(errno));
    if (p->say)
        fprintf(p->say, "wrote %s\n", path);
    return ATTN_OK;
}

static attn_status write_picture(const place *p, const attn_picture *picture, bool first,
                                 attn_arena *arena) {
    attn_text svg = {.arena = arena};
    const char *name = first ? NULL : picture->name;
    const void *png;
    size_t bytes;
    attn_status status = attn_picture_draw(picture, &svg, p->err);
    if (!status)
        status = write_file(p, name, "svg", svg.data, svg.size);
    if (status)
        return status;
    status = attn_figure_png(&svg, scale, arena, &png, &bytes, p->err);
    if (status == ATTN_EUNSUPPORTED)
        return ATTN_OK;
    return status ? status : write_file(p, name, "png", png, bytes);
}

static attn_status write_json(const place *p, const attn_findings *findings, attn_arena *arena) {
    attn_text json = {.arena = arena};
    attn_findings_json(findings, &json);
    if (json.failed)
        return attn_fail(p->err, ATTN_ENOMEM, "out", "not enough memory for the JSON");
    return write_file(p, NULL, "json", json.data, json.size);
}

attn_status srv_experiment_write(const char *folder, const attn_findings *findings, FILE *say,
                                 attn_error *err) {
    const place p = {folder, findings->experiment->name, say, err};
    if (mkdir(folder, 0777) && errno != EEXIST)
        return attn_fail(err, ATTN_EARG, "out", "%.200s cannot be made: %s", folder,
                         strerror(errno));
    attn_arena *arena = attn_arena_new((size_t)1 << 30);
    if (!arena)
        return attn_fail(err, ATTN_ENOMEM, "out", "no memory");
    attn_status status = write_json(&p, findings, arena);
    for (size_t i = 0; !status && i < findings->picture_count; i++) {
        attn_arena_reset(arena);
        status = write_picture(&p, &findings->pictures[i], i == 0, arena);
    }
    attn_arena_free(arena);
    return status;
}
