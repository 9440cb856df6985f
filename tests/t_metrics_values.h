/* SPDX-License-Identifier: MIT */
/* Written by tests/peer/metrics_values.py: precision, recall, F1, average precision of each class
 * that has samples. */
#ifndef GY_T_METRICS_VALUES_H
#define GY_T_METRICS_VALUES_H
static const double mt_mean_loss = 1.9652890625;
static const double mt_top1 = 0.562;
static const double mt_top5 = 0.95;
static const double mt_classes[MT_C - 1][4] = {
    {0.5476190476190477, 0.45544554455445546, 0.4972972972972973, 0.6184840509360933},
    {0.5652173913043478, 0.5342465753424658, 0.5492957746478874, 0.5765933733021886},
    {0.5945945945945946, 0.5238095238095238, 0.5569620253164557, 0.593408441321958},
    {0.6933333333333334, 0.6666666666666666, 0.6797385620915033, 0.6762556615253792},
    {0.5357142857142857, 0.5921052631578947, 0.5625, 0.6328927102065125},
    {0.6790123456790124, 0.625, 0.650887573964497, 0.6561205828834327}};
static const double mt_macro[4] = {0.6025818330407703, 0.5662122622551677, 0.5827802055529401, 0.625625803362594};
static const int64_t mt_confusion[MT_C - 1][MT_C] = {
    {46, 16, 9, 8, 9, 7, 6},
    {8, 39, 4, 7, 4, 8, 3},
    {6, 4, 44, 4, 11, 5, 10},
    {6, 3, 7, 52, 7, 1, 2},
    {12, 4, 3, 1, 45, 5, 6},
    {6, 3, 7, 3, 8, 55, 6}};
#endif
