/* SPDX-License-Identifier: MIT */
/* bench_allreduce.c: measures MPI's allreduce as gyre bench allreduce measures its own. It sums
 * floats, twice the bytes each time, in rounds of many sums; it prints the fastest and the median
 * round. In place and out of place take turns; the better one counts. Results are checked. A size
 * takes about SECONDS each way. Where sums are slow a round has fewer of them, at least one, and
 * there are fewer rounds, at least two. Rank 0's clock decides.
 *     mpicc -O2 bench_allreduce.c -o mpi && mpirun -n 2 ./mpi LEAST MOST ROUNDS SECONDS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void check(const float *sum, long count, int rank, int ranks)
{
    for (long i = 0; i < count; i++)
        if (sum[i] != (float)(i % 13 + 1) * (float)ranks * (float)(ranks + 1) / 2) {
            fprintf(stderr, "rank %d: float %ld is %g\n", rank, i, (double)sum[i]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

static double reduce(const float *own, float *sum, long count, long repeats)
{
    const double began = MPI_Wtime();
    for (long k = 0; k < repeats; k++)
        MPI_Allreduce(own ? own : MPI_IN_PLACE, sum, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return (MPI_Wtime() - began) / (double)repeats;
}

static double first_rank(double value)
{
    MPI_Bcast(&value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return value;
}

/* The rounds' seconds in order; returns how many there are. own NULL: in place. */
static long measure(const float *own, float *sum, long count, long rounds, double limit, double *seconds)
{
    const long most = (64L << 20) / (count * 4), all = most > 1000 ? 1000 : most < 1 ? 1 : most;
    const double began = MPI_Wtime();
    const double fits = limit / (double)rounds / first_rank(reduce(own, sum, count, all > 10 ? 10 : all));
    const long repeats = fits < 1 ? 1 : fits < (double)all ? (long)fits : all;
    long done = 0;
    reduce(own, sum, count, repeats);
    while (done < rounds && (done < 2 || first_rank(MPI_Wtime() - began) < limit))
        seconds[done++] = reduce(own, sum, count, repeats);
    qsort(seconds, (size_t)done, sizeof *seconds, compare);
    return done;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const long least = argc > 1 ? atol(argv[1]) : 8, most = argc > 2 ? atol(argv[2]) : 1L << 28, rounds = argc > 3 ? atol(argv[3]) : 20;
    const double limit = argc > 4 ? atof(argv[4]) : 10;
    float *own = malloc((size_t)most), *sum = malloc((size_t)most);
    double *seconds = malloc((size_t)(rounds + 2) * sizeof *seconds);
    for (long bytes = least; bytes <= most; bytes *= 2) {
        const long count = bytes / 4;
        double best[2], median[2];
        long done[2];
        for (long i = 0; i < count; i++)
            own[i] = (float)(i % 13 + 1) * (float)(rank + 1);
        MPI_Allreduce(own, sum, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        check(sum, count, rank, ranks);
        memcpy(sum, own, (size_t)bytes);
        MPI_Allreduce(MPI_IN_PLACE, sum, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        check(sum, count, rank, ranks);
        memset(own, 0, (size_t)bytes);
        memset(sum, 0, (size_t)bytes);
        for (int inside = 0; inside < 2; inside++) {
            done[inside] = measure(inside ? NULL : own, sum, count, rounds, limit, seconds);
            best[inside] = seconds[0];
            median[inside] = seconds[done[inside] / 2];
        }
        const int better = best[1] < best[0];
        if (rank == 0) {
            printf("{\"ranks\":%d,\"bytes\":%ld,\"fastest_us\":%.3f,\"median_us\":%.3f,\"rounds\":%ld}\n", ranks, bytes, best[better] * 1e6,
                   median[better] * 1e6, done[better]);
            fflush(stdout);
        }
    }
    free(own);
    free(sum);
    free(seconds);
    MPI_Finalize();
    return 0;
}
