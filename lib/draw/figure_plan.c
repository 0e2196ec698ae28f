/* Ticks of number axes: round numbers, no more digits than tell them apart. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "draw/figure_parts.h"

static double round_step(double rough) {
    double ten = pow(10, floor(log10(rough))), part = rough / ten;
    return ten * (part <= 1.0001 ? 1 : part <= 2.0001 ? 2 : part <= 5.0001 ? 5 : 10);
}

size_t attn_figure_ticks(double low, double high, size_t most, double ticks[ATTN_TICKS]) {
    most = most < 2 ? 2 : most > ATTN_TICKS ? ATTN_TICKS : most;
    double span = high - low;
    if (!(span > 0) || !isfinite(span)) {
        ticks[0] = isfinite(low) ? low : 0;
        return 1;
    }
    double step = round_step(span / (double)(most - 1)), slack = step * 1e-6;
    double first = ceil((low - slack) / step);
    size_t n = 0;
    for (; n < most && (first + (double)n) * step <= high + slack; n++)
        ticks[n] = (first + (double)n) * step + 0.0;
    if (n == 0)
        ticks[n++] = low;
    return n;
}

void attn_figure_tick_text(double value, double step, char text[32]) {
    double size = fmax(fabs(value), fabs(step));
    if (fabs(value) < fabs(step) * 1e-9)
        value = 0;
    if (size > 0 && (size < 1e-4 || size >= 1e6)) {
        snprintf(text, 32, "%.3g", value);
        return;
    }
    int digits = step > 0 ? (int)-floor(log10(fabs(step) * 1.0001)) : 2;
    snprintf(text, 32, "%.*f", digits < 0 ? 0 : digits, value + 0.0);
}
