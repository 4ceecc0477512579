/* Smallest enclosing balls by whole passes, compiled, for compare_sublinear.py.

   Badoiu and Clarkson (2003) and away-step Frank-Wolfe with exact line searches (Yildirim 2008), as
   in tests/reference/enclosing_ball.py. A is n x d, float32, in row order. A pass computes every
   distance; primal is the largest, dual is p'|A_i|^2 - |A'p|^2. They stop at a relative gap. */

#include <math.h>
#include <stdlib.h>

typedef struct {
    const float *A;
    long n, d;
    double *squares, *weights, *centre, *distances;
    float *rounded;
    double mean, primal, dual; /* of the present centre; the best ones so far */
    long far, near;
} ball;

static double row_dot(const float *row, const float *x, long d)
{
    double total = 0;
    for (long start = 0; start < d; start += 4096) {
        long stop = start + 4096 < d ? start + 4096 : d;
        float part = 0;
        for (long j = start; j < stop; j++)
            part += row[j] * x[j];
        total += part;
    }
    return total;
}

/* One pass: distances, the farthest row, the nearest of those with weight, the certificate. */
static void look(ball *b)
{
    double square = 0;
    b->mean = 0;
    b->far = b->near = -1;
    for (long j = 0; j < b->d; j++) {
        square += b->centre[j] * b->centre[j];
        b->rounded[j] = (float) b->centre[j];
    }
    double weighted = 0;
    for (long i = 0; i < b->n; i++) {
        double s = b->squares[i] - 2 * row_dot(b->A + i * b->d, b->rounded, b->d) + square;
        b->distances[i] = s;
        weighted += b->weights[i] * b->squares[i];
        b->mean += b->weights[i] * s;
        if (b->far < 0 || s > b->distances[b->far])
            b->far = i;
        if (b->weights[i] > 0 && (b->near < 0 || s < b->distances[b->near]))
            b->near = i;
    }
    if (b->distances[b->far] < b->primal)
        b->primal = b->distances[b->far];
    if (weighted - square > b->dual)
        b->dual = weighted - square;
}

/* centre += factor * (row i - centre); the weights likewise. */
static void step(ball *b, long i, double factor)
{
    const float *row = b->A + i * b->d;
    for (long j = 0; j < b->d; j++)
        b->centre[j] += factor * (row[j] - b->centre[j]);
    for (long k = 0; k < b->n; k++)
        b->weights[k] *= 1 - factor;
    b->weights[i] += factor;
    for (long k = 0; k < b->n; k++)
        if (b->weights[k] < 1e-15)
            b->weights[k] = 0;
}

static void badoiu_clarkson_step(ball *b, long pass)
{
    step(b, b->far, 1.0 / (pass + 1));
}

static void frank_wolfe_step(ball *b, long pass)
{
    (void) pass;
    double towards = b->distances[b->far] - b->mean, away = b->mean - b->distances[b->near];
    long i = towards >= away ? b->far : b->near;
    double longest = 1, length = b->distances[i];
    if (towards < away)
        longest = b->weights[i] < 1 ? b->weights[i] / (1 - b->weights[i]) : 0;
    if (length < 1e-300)
        return;
    double factor = fmin(longest, fmax(towards, away) / (2 * length));
    step(b, i, towards >= away ? factor : -factor);
}

/* Passes made until (primal - dual) <= target * primal, or max_passes. */
long enclosing_ball(const float *A, long n, long d, int away_steps, double target, long max_passes,
                    double *centre, double *weights, double *primal, double *dual)
{
    ball b = {.A = A, .n = n, .d = d, .weights = weights, .centre = centre};
    b.squares = malloc(n * sizeof(double));
    b.distances = malloc(n * sizeof(double));
    b.rounded = malloc(d * sizeof(float));
    long pass = -1, first = 0;
    if (b.squares && b.distances && b.rounded) {
        for (long i = 0; i < n; i++) {
            b.squares[i] = row_dot(A + i * d, A + i * d, d);
            weights[i] = 0;
            if (away_steps && b.squares[i] > b.squares[first])
                first = i;
        }
        weights[first] = 1;
        for (long j = 0; j < d; j++)
            centre[j] = A[first * d + j];
        b.primal = INFINITY;
        b.dual = -INFINITY;
        for (pass = 1;; pass++) {
            look(&b);
            if (b.primal - b.dual <= target * b.primal || pass == max_passes)
                break;
            (away_steps ? frank_wolfe_step : badoiu_clarkson_step)(&b, pass);
        }
        *primal = b.primal;
        *dual = b.dual;
    }
    free(b.squares);
    free(b.distances);
    free(b.rounded);
    return pass;
}
