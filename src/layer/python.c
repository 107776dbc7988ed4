/* See python.h. */
#include "layer/python.h"

#include "layer/text.h"

uint32_t am_python_take(void)
{
    return 0;
}

void am_python_add(struct am_text *text, uint32_t stack)
{
    am_text_add(text, "[]");
}

void am_python_print(struct am_text *text, uint32_t stack)
{
}
