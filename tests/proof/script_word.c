/* SPDX-License-Identifier: MIT */
/* script_word: nothing is read outside of the line and nothing written outside of a word; the word
 * has an end and no blank. */
#include "tests/proof/proof.h"
#include "net/schedule/schedule_text.c"

enum { LINE = 52, WORD = 48 /* SCRIPT_WORD */ };

void proof(void)
{
    char line[LINE], word[WORD];
    const size_t count = nondet_size(), at = nondet_size();
    PROOF_ASSUME(count <= LINE);
    struct script x = { .at = line + (LINE - count), .end = line + LINE };
    const char *const begin = x.at;
    script_word(&x, word);
    PROOF_CLAIM(x.at >= begin && x.at <= line + LINE && x.end == line + LINE);
    size_t bytes = 0;
    while (bytes < WORD && word[bytes] != 0)
        bytes++;
    PROOF_ASSUME(at < bytes);
    PROOF_CLAIM(word[at] != ' ' && word[at] != '\t' && word[at] != '\r');
}
