/* SPDX-License-Identifier: MIT */
/* comma.h: the program's locale becomes one with a decimal comma. It is installed, or localedef
 * makes it in a folder that is removed again. */
#ifndef GY_TESTS_COMMA_H
#define GY_TESTS_COMMA_H
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline int test_comma_try(const char *name)
{
    return setlocale(LC_ALL, name) && strcmp(localeconv()->decimal_point, ",") == 0;
}

/* 0: there is none, and none could be made. setlocale(LC_ALL, "C") ends it. */
static inline int test_comma(void)
{
    char folder[] = "/tmp/gyre_locale_XXXXXX", make[200], clean[80];
    if (test_comma_try("de_DE.UTF-8") || test_comma_try("fr_FR.UTF-8"))
        return 1;
    if (!mkdtemp(folder))
        return 0;
    snprintf(make, sizeof make, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >%s/said 2>&1", folder,
             folder);
    snprintf(clean, sizeof clean, "rm -rf %s", folder);
    const int made = system(make) == 0 && setenv("LOCPATH", folder, 1) == 0 &&
                     test_comma_try("de_DE.UTF-8");
    unsetenv("LOCPATH");
    if (system(clean) != 0 || !made)
        setlocale(LC_ALL, "C");
    return made;
}

#endif
