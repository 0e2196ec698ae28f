/* gcc defines these macros under a sanitizer. clang has __has_feature instead, so this file defines
 * the macros for clang. */
#ifndef ATTN_BASE_SANITIZERS_H
#define ATTN_BASE_SANITIZERS_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif

#endif
