/* Documents for browsers that are made of an embedded file and of a content. */
#ifndef SRV_PAGE_H
#define SRV_PAGE_H

#include "request/request.h"

/* Answers the file `name` of the page with `content`, HTML, in place of %content% and with `root`,
 * the relative address of GET / ("../"), in place of %root%. A build without the page answers the
 * content alone. */
void srv_page_document(srv_request *req, const char *name, const char *root, const char *content);

#endif
