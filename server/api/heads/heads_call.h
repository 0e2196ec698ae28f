/* A request to POST /v1/models/{id}/heads. heads_score.c reads the request and computes;
 * heads_answer.c writes the answer. */
#ifndef SRV_HEADS_CALL_H
#define SRV_HEADS_CALL_H

#include <attn/head_scores.h>

#include "api/models/models_api.h"

/* Bits of the field `return`. */
enum { SRV_HEADS_PROBES = 1, SRV_HEADS_TEXTS = 2, SRV_HEADS_RELATIONS = 4, SRV_HEADS_IDS = 8 };

typedef struct srv_heads_body {
    srv_given_bits given;
    int64_t probes, length, seed, top, decimals, timeout_ms;
    srv_strings text;
    srv_objects relations; /* array of srv_relation */
    unsigned returns;      /* bits SRV_HEADS_* */
    unsigned sites;        /* bits 1 << attn_site_kind; 0: all */
    unsigned scores;       /* bits 1 << attn_head_score; 0: all */
    int score;             /* the attn_head_score that sorts heads and that a picture shows */
    bool shipped;          /* include the relations that ship with the service */
    srv_figure_input figure;
    bool dry_run;
} srv_heads_body;

/* The scores of a head in the answer. */
typedef struct srv_head_answer {
    int site; /* an attn_site_kind */
    size_t layer, head;
    const attn_scored_head *probes, *texts; /* NULL: not computed */
    attn_head_score sorts;                  /* the score by which heads are sorted */
} srv_head_answer;

/* A relation between words that a head finds, in the answer. */
typedef struct srv_related_answer {
    int site; /* an attn_site_kind */
    size_t layer, head, hits, of;
    double weight;
    const char *does, *text;
} srv_related_answer;

typedef struct srv_heads_pass {
    srv_pass pass;
    srv_heads_body body;
    attn_head_subject subject;
    unsigned wanted; /* the scores to compute: bits 1 << attn_head_score */
    attn_head_batch repeated, separated, texts;
    const attn_head_relation *relations; /* [relation_count] */
    size_t relation_count;
    attn_head_words words;
    attn_scored_head *by_probes, *by_texts; /* NULL: not computed */
    srv_head_answer *heads;                 /* [head_count], sorted */
    size_t head_count;
    const srv_related_answer *related; /* [related_count], sorted; at most `top` a relation */
    size_t related_count;
} srv_heads_pass;

extern const char *const srv_head_scores[]; /* names of attn_head_score, ended by NULL */

/* Returns the scores by which the head is sorted and drawn: the scores on probes or, without
 * probes, the scores on texts. */
static inline const attn_scored_head *srv_head_first(const srv_head_answer *head) {
    return head->probes ? head->probes : head->texts;
}

void srv_heads_json(void *call, attn_json_text *j);
void srv_heads_text(void *call, attn_text *t);
void srv_heads_picture(void *call);

#endif
