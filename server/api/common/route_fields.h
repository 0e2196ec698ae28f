/* Rows of field tables for the fields that many routes share. T is the decoded struct. The member
 * of T has the name of the field. */
#ifndef SRV_ROUTE_FIELDS_H
#define SRV_ROUTE_FIELDS_H

#include "wire/decode.h"

#define SRV_WEIGHTS_UNASKED 65536 /* more weights are answered only on request */

#define SRV_TIMEOUT_ROW(T)                                                                         \
    SRV_INT_ROW(T, timeout_ms, 1, 86400000,                                                        \
                "Time limit of the request in milliseconds. The limit of the service applies if "  \
                "it is shorter.")
#define SRV_SHORTEST                                                                               \
    ". The default is the shortest text that reads back to the same number, and in answers as "    \
    "text 8 decimals."
/* The text `more` ends the sentence that describes the field. */
#define SRV_DECIMALS_ROW(T, more)                                                                  \
    SRV_INT_ROW(T, decimals, 0, 17, "Round the numbers of the answer to this many decimals" more)
#define SRV_FULL_ROW(T)                                                                            \
    SRV_BOOL_ROW(T, full,                                                                          \
                 "For answers as text: print all elements of a tensor. The default prints the "    \
                 "ends of the axes if there are more than 1,000 elements.")
#define SRV_DRY_RUN_ROW(T, text) SRV_BOOL_ROW(T, dry_run, text)

#endif
