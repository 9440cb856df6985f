/* SPDX-License-Identifier: MIT */
/* MPI's allreduce as gyre bench allreduce measures its own: sums of float, twice the bytes each time, a round of many sums, the fastest and
 * the median of the rounds; in place and out of place in turn, the better one counts; results checked.
 *     mpicc -O2 bench_allreduce.c -o mpi && mpirun -n 2 ./mpi LEAST MOST ROUNDS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void check(const float *own, const float *sum, long count, int rank, int ranks)
{
    (void)own;
    for (long i = 0; i < count; i++)
        if (sum[i] != (float)(i % 13 + 1) * (float)ranks * (float)(ranks + 1) / 2) {
            fprintf(stderr, "rank %d: float %ld is %g\n", rank, i, (double)sum[i]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const long least = argc > 1 ? atol(argv[1]) : 8, most = argc > 2 ? atol(argv[2]) : 1L << 28, rounds = argc > 3 ? atol(argv[3]) : 20;
    float *own = malloc((size_t)most), *sum = malloc((size_t)most);
    double *seconds = malloc((size_t)rounds * sizeof *seconds);
    for (long bytes = least; bytes <= most; bytes *= 2) {
        const long count = bytes / 4;
        const long all = (64L << 20) / bytes, repeats = all > 1000 ? 1000 : all < 1 ? 1 : all;
        for (long i = 0; i < count; i++)
            own[i] = (float)(i % 13 + 1) * (float)(rank + 1);
        MPI_Allreduce(own, sum, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        check(own, sum, count, rank, ranks);
        memset(own, 0, (size_t)bytes);
        memset(sum, 0, (size_t)bytes);
        double best[2], median[2];
        for (int inside = 0; inside < 2; inside++) {
            for (long round = -1; round < rounds; round++) {
                const double began = MPI_Wtime();
                for (long k = 0; k < repeats; k++)
                    MPI_Allreduce(inside ? MPI_IN_PLACE : own, sum, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
                if (round >= 0)
                    seconds[round] = (MPI_Wtime() - began) / (double)repeats;
            }
            qsort(seconds, (size_t)rounds, sizeof *seconds, compare);
            best[inside] = seconds[0];
            median[inside] = seconds[rounds / 2];
        }
        const int better = best[1] < best[0];
        if (rank == 0)
            printf("{\"ranks\":%d,\"bytes\":%ld,\"fastest_us\":%.3f,\"median_us\":%.3f}\n", ranks, bytes, best[better] * 1e6, median[better] * 1e6);
    }
    free(own);
    free(sum);
    free(seconds);
    MPI_Finalize();
    return 0;
}
