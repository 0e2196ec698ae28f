/* GET /v1/lessons and GET /v1/lessons/{id} answer the lessons of config/lessons/, which are
 * embedded in the program, and the lessons of lessons_dir. The answer for a lesson is its file.
 * config/lessons/README.md describes the format of the files. */
#include "api/common/text_reply.h"
#include "api/service/service_api.h"
#include "api/service/shelf.h"
#include "wire/decode.h"

static void put_href(attn_json_text *j, const void *file) {
    attn_json_string(j, srv_shelf_path(srv_shelf_of(SRV_LESSONS), file, j->arena));
}

static void put_count(attn_json_text *j, const void *file) {
    int count = 0;
    const char *p = srv_span_skip_space(srv_span_of(file, "steps").data + 1);
    for (; *p == '{'; count++)
        p = srv_span_next(p);
    attn_json_int(j, count);
}

#define PART(name, type, text, ...)  SRV_WRITTEN(name, type, NULL, text, .always = true, __VA_ARGS__)
#define MAYBE(name, type, text, ...) SRV_WRITTEN(name, type, NULL, text, __VA_ARGS__)
/* The members that a lesson and its entry in the list share. */
#define HEAD                                                                                       \
    PART("id", "string", "The id under /v1/lessons."), PART("title", "string", "The title."),      \
        PART("purpose", "string", "What one knows afterwards."),                                   \
        PART("minutes", "integer", "About how long the lesson takes."),                            \
        MAYBE("needs", "string", "The id of a model without which the lesson cannot be given.")

/* An entry of the list. */
static const srv_field entry_rows[] = {
    HEAD,
    SRV_WRITTEN("num_steps", "integer", put_count, "The number of steps.", .always = true),
    SRV_WRITTEN("href", "string", put_href, "The path of the lesson.", .always = true),
    {0},
};

static void put_entries(attn_json_text *j, const void *unused) {
    (void)unused;
    srv_shelf_put(j, srv_shelf_of(SRV_LESSONS), entry_rows);
}

static const srv_field list_rows[] = {
    SRV_WRITTEN("lessons", "[LessonEntry]", put_entries, "The lessons, in their order.",
                .always = true),
    {0},
};

static const srv_field request_rows[] = {
    PART("path", "string", "The route: v1/attention, or v1/models/{id}/attention or /generate."),
    PART("body", "object", "The body of the request."),
    {0},
};

static const srv_field look_rows[] = {
    PART("view", "string", "The id of a view of the page: words, matrix, heads or stages."),
    MAYBE("site", "integer", "The number of the site; default: the one that the page shows first."),
    MAYBE("head", "any", "The number of the head, or \"mean\"."),
    MAYBE("query", "integer", "The query that is selected."),
    MAYBE("key", "integer", "The key that is selected."),
    {0},
};

static const srv_field click_rows[] = {
    MAYBE("query", "integer", "The query to select."),
    MAYBE("key", "integer", "The key to select."),
    {0},
};

static const srv_field question_rows[] = {
    PART("ask", "string", "The question."),
    MAYBE("choices", "[string 2+]", "The answers to choose from."),
    MAYBE("answer", "integer", "The number of the right choice, from 0."),
    MAYBE("click", "*", "What is to be selected on the page.", .fields = click_rows),
    MAYBE("number", "number", "The number to be typed."),
    MAYBE("within", "number", "How far the typed number may be from it."),
    PART("hint", "string", "What is said after a wrong answer."),
    PART("right", "string", "What is said after the right answer."),
    {0},
};

static const srv_field curve_rows[] = {
    PART("name", "string", "The name of the curve."),
    PART("points", "[[number]]", "Its points, as [x, y]."),
    {0},
};

static const srv_field figure_rows[] = {
    PART("title", "string", "What the figure shows."),
    PART("x", "string", "The name of the horizontal axis."),
    PART("y", "string", "The name of the vertical axis."),
    PART("source", "string", "Where the numbers are from."),
    PART("curves", "[LessonCurve 1+]", "The curves."),
    {0},
};

static const srv_field fact_rows[] = {
    MAYBE("says", "string", "The number as the texts of the step write it."),
    MAYBE("at", "string", "A JSON pointer to the number in the answer of the request."),
    MAYBE("site", "integer", "Else it is a weight of the run: of this site; default 0,"),
    MAYBE("head", "any", "of this head, or \"mean\"; default 0,"),
    MAYBE("query", "integer", "of this query"),
    MAYBE("key", "integer", "and this key."),
    MAYBE("largest", "integer", "Instead of key: the key with the largest weight of the query."),
    MAYBE("curve", "integer", "Else it is the y of this curve of the figure,"),
    MAYBE("point", "integer", "at this point."),
    {0},
};

static const srv_field step_rows[] = {
    PART("title", "string", "The title of the step."),
    PART("text", "string", "What the step says. Blank lines end paragraphs, *stars* stress words."),
    MAYBE("request", "*", "The request whose run is shown; default: that of the step before.",
          .fields = request_rows),
    MAYBE("look", "*", "What of the run is shown; default: as the step before left it.",
          .fields = look_rows),
    MAYBE("highlight", "string", "The part of the page that is lit: view, cell, heads or tabs."),
    MAYBE("figure", "*", "Curves that the step shows.", .fields = figure_rows),
    MAYBE("question", "*", "The question of the step.", .fields = question_rows),
    MAYBE("facts", "[LessonFact]",
          "The numbers that the step states, which tests compare with the service."),
    {0},
};

static const srv_field lesson_rows[] = {
    HEAD,
    PART("order", "integer", "The place of the lesson in the list."),
    PART("steps", "[LessonStep 1+]", "The steps."),
    {0},
};

const srv_field srv_lesson_answers[] = {
    SRV_GROUP("LessonEntry", entry_rows, NULL, .accepts = SRV_O_OPEN),
    SRV_GROUP("Lessons", list_rows, NULL),
    SRV_GROUP("Lesson", lesson_rows, "Steps, each with what the page shows and a question.",
              .accepts = SRV_O_OPEN),
    SRV_GROUP("LessonStep", step_rows, "A step of a lesson.", .accepts = SRV_O_OPEN),
    SRV_GROUP("LessonCurve", curve_rows, "A curve of a figure.", .accepts = SRV_O_OPEN),
    SRV_GROUP("LessonFact", fact_rows, "A number that a lesson states.", .accepts = SRV_O_OPEN),
    {0},
};

srv_outcome srv_lessons_list(srv_request *req) {
    if (srv_reads_text(req)) {
        attn_text t = srv_text_begin(req);
        srv_shelf_text(&t, srv_shelf_of(SRV_LESSONS), "", 44);
        srv_text_end(req, &t);
        return SRV_DONE;
    }
    srv_answer_reply(req, list_rows, req);
    return SRV_DONE;
}

srv_outcome srv_lessons_one(srv_request *req) {
    return srv_shelf_one(req, srv_shelf_of(SRV_LESSONS));
}
