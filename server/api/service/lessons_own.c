/* Lessons of lessons_dir. Each file ID.json is read when the service starts, and checked by the
 * rows of the schema of lessons in openapi.json. A file that is not a lesson is left out, and the
 * log has the reason. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/service/service_api.h"
#include "api/service/shelf.h"
#include "base/try.h"
#include "system/files.h"
#include "json/json_tree.h"

enum { LESSON_BYTES = 1 << 20 }; /* size of the largest file in bytes */
enum { ID_MOST = 64 };

/* --- checking --- */

static attn_status check_value(attn_json *value, const char *type, const srv_field *fields,
                               const char *at, attn_error *err);

static attn_status expected(const attn_json *value, const char *what, const char *at,
                            attn_error *err) {
    return attn_fail(err, ATTN_EARG, at, "%s: expected %s, found %s", at, what,
                     attn_json_kind_name(value));
}

static attn_status check_object(attn_json *object, const srv_field *rows, const char *at,
                                attn_error *err) {
    char below[256];
    if (object->kind != ATTN_JSON_OBJECT)
        return expected(object, "an object", at, err);
    for (const srv_field *f = rows; f->name; f++) {
        attn_json *member = attn_json_member(object, f->name);
        snprintf(below, sizeof below, "%s/%s", at, f->name);
        if (member)
            ATTN_TRY(check_value(member, f->type, f->fields, below, err));
        else if (f->always && !f->put)
            return attn_fail(err, ATTN_EARG, below, "%s is missing", below);
    }
    const attn_json *unknown = attn_json_unknown(object);
    return unknown ? attn_fail(err, ATTN_EARG, at, "%s/%.60s is no member of a lesson", at,
                               unknown->key)
                   : ATTN_OK;
}

/* Checks a list of the type "[ELEMENT]", "[ELEMENT 2+]" or "[[ELEMENT]]". */
static attn_status check_list(attn_json *list, const char *type, const char *at, attn_error *err) {
    char element[32], below[256];
    const size_t n = strlen(type) - 2;
    snprintf(element, sizeof element, "%.*s", (int)n, type + 1);
    char *count = strchr(element, ' ');
    if (list->kind != ATTN_JSON_LIST)
        return expected(list, "a list", at, err);
    const size_t least = count ? strtoul(count, NULL, 10) : 0;
    if (list->count < least)
        return attn_fail(err, ATTN_EARG, at, "%s: expected at least %zu element%s, found %zu", at,
                         least, attn_plural(least), list->count);
    if (count)
        *count = 0;
    size_t i = 0;
    for (attn_json *item = list->first; item; item = item->next) {
        snprintf(below, sizeof below, "%s/%zu", at, i++);
        ATTN_TRY(check_value(item, element, NULL, below, err));
    }
    return ATTN_OK;
}

/* Checks a value by its type in the notation of wire/answer.h. Supports only the types that lessons
 * have. `fields` are the rows of the type "*". */
static attn_status check_value(attn_json *value, const char *type, const srv_field *fields,
                               const char *at, attn_error *err) {
    static const struct {
        const char *type, *what;
        attn_json_kind kind;
    } plain[] = {{"string", "a string", ATTN_JSON_STRING},
                 {"number", "a number", ATTN_JSON_NUMBER},
                 {"object", "an object", ATTN_JSON_OBJECT}};
    int64_t integer;
    if (*type == '[')
        return check_list(value, type, at, err);
    if (strcmp(type, "*") == 0)
        return check_object(value, fields, at, err);
    if (strcmp(type, "integer") == 0 && !attn_json_integer(value, 0, INT32_MAX, &integer))
        return expected(value, "a whole number from 0", at, err);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(type, plain[i].type) == 0 && value->kind != plain[i].kind)
            return expected(value, plain[i].what, at, err);
    for (const srv_field *group = srv_lesson_answers; group->name; group++)
        if (strcmp(type, group->name) == 0)
            return check_object(value, group->fields, at, err);
    return ATTN_OK;
}

static attn_status check_lesson(const char *id, const char *text, size_t size, attn_error *err) {
    const srv_field *lesson = srv_lesson_answers;
    attn_arena *arena = attn_arena_new((size_t)64 * LESSON_BYTES);
    attn_json *root = NULL;
    while (strcmp(lesson->name, "Lesson") != 0)
        lesson++;
    attn_status status = arena ? attn_json_read(text, size, arena, &root, err)
                               : attn_fail(err, ATTN_ENOMEM, "", "no memory for the lesson");
    if (!status)
        status = check_object(root, lesson->fields, "", err);
    if (!status && strcmp(attn_json_member(root, "id")->text, id) != 0)
        status = attn_fail(err, ATTN_EARG, "/id", "/id: expected \"%s\", the name of the file", id);
    attn_arena_free(arena);
    return status;
}

/* --- reading --- */

/* Reads a file into memory and adds a NUL at its end. NULL: *why has the reason. */
static char *read_text(int dir, const char *name, size_t *size, const char **why) {
    struct stat about;
    const int fd = srv_file_open(dir, name, true, &about);
    char *text = NULL;
    int failed = fd < 0 ? -fd : about.st_size > LESSON_BYTES ? EFBIG : 0;
    *size = 0;
    if (!failed)
        text = calloc(1, (size_t)about.st_size + 1);
    if (text)
        failed = srv_file_fill(fd, text, (size_t)about.st_size, size);
    if (fd >= 0)
        close(fd);
    if (text && !failed)
        return text;
    free(text);
    *why = strerror(failed ? failed : ENOMEM);
    return NULL;
}

/* Adds the file ID.json to the shelf. It stays there until the process ends. */
static void add_file(int dir, const char *id, const char *name, srv_log *log) {
    attn_error err = {0};
    const char *why = NULL;
    size_t size;
    char *text = read_text(dir, name, &size, &why);
    if (text && check_lesson(id, text, size, &err))
        why = err.text;
    if (!why && !srv_shelf_add(SRV_LESSONS, id, text, size))
        why = "there are too many lessons, or no memory is left";
    if (!why)
        return;
    free(text);
    srv_log_event(log, SRV_LOG_WARN, "lessons_dir: %.80s is left out: %.300s", name, why);
}

/* Finds the id of a lesson in the name of its file. false: this is not the name of a lesson. */
static bool find_id(const char *name, char id[ID_MOST + 1]) {
    const size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (!n || n > ID_MOST || strcmp(name + n, ".json") != 0)
        return false;
    memcpy(id, name, n);
    id[n] = 0;
    return true;
}

int srv_lessons_open(const char *path, srv_log *log) {
    DIR *folder = *path ? opendir(path) : NULL;
    char id[ID_MOST + 1];
    if (*path && !folder)
        return errno;
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        if (find_id(entry->d_name, id))
            add_file(dirfd(folder), id, entry->d_name, log);
    if (folder)
        closedir(folder);
    return 0;
}
