/* The functions of OpenBLAS that lib/kernels/gemm.c calls; absent.c has loops in their place. */
#ifndef SRV_WASM_CBLAS_H
#define SRV_WASM_CBLAS_H

enum CBLAS_ORDER { CblasRowMajor = 101 };
typedef enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans = 112 } CBLAS_TRANSPOSE;
enum { OPENBLAS_SEQUENTIAL = 0 };
typedef int blasint;

void openblas_set_num_threads(int count);
int openblas_get_parallel(void);
void cblas_sgemm(enum CBLAS_ORDER order, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n,
                 int k, float alpha, const float *a, int lda, const float *b, int ldb, float beta,
                 float *c, int ldc);
void cblas_dgemm(enum CBLAS_ORDER order, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n,
                 int k, double alpha, const double *a, int lda, const double *b, int ldb,
                 double beta, double *c, int ldc);

#endif
