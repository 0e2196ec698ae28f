/* The table of the codes of problems. Problems (problem.c), the routes /problems and
 * /problems/{code}, openapi.json and the README of server/api are made from it. */
#ifndef SRV_PROBLEM_CODES_H
#define SRV_PROBLEM_CODES_H

#include "request/request.h"

typedef struct srv_problem_row {
    int status;
    const char *name, *title;
    const char *bare;    /* constant body, used if the arena of a request is used up */
    const char *meaning; /* sentence that says when the problem occurs */
    const char *remedy;  /* sentence that says what the client or the operator can do */
    /* An example of a problem with this code. NULL: the example lacks this member. */
    const char *detail, *pointer, *setting;
    double limit; /* limit in the example, if it has `setting` */
} srv_problem_row;

/* Returns the row of a code. For a number that is no code, returns the row of SRV_INTERNAL. */
const srv_problem_row *srv_problem_row_of(srv_code code);

/* Returns the example of a code as the JSON object that such a problem has as its body. NULL:
 * memory ran out. */
const char *srv_problem_example(attn_arena *arena, srv_code code);

#endif
