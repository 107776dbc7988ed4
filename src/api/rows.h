/*
 * From a row of api.def, which names each argument once, to the lists that macros take:
 * parameters, arguments, the text of names and letters, checks, and objects.
 */
#ifndef AM_API_ROWS_H
#define AM_API_ROWS_H

#define AM_ROW_PLAIN(name_, ...) \
    AM_API(aclError, name_, AM_ROW_PARAMS(__VA_ARGS__), AM_ROW_ARGS(__VA_ARGS__), \
           AM_ROW_SIG(__VA_ARGS__))
#define AM_ROW_CHECKED(name_, ...) \
    AM_API_CHECKED(name_, AM_ROW_PARAMS(__VA_ARGS__), AM_ROW_OBJECT_PARAMS(__VA_ARGS__), \
                   AM_ROW_OBJECT_ARGS(__VA_ARGS__), \
                   AM_ROW_NEED(AM_NEEDS) AM_ROW_CHECKS(__VA_ARGS__) \
                       AM_ROW_FINDS(__VA_ARGS__))
#define AM_ROW_NEED(need_) AM_ROW_NEED_OF(need_)
#define AM_ROW_NEED_OF(need_) AM_NEED_##need_
#define AM_FUNCTION_RET(ret_, name_, ...) \
    AM_API_RET(ret_, name_, AM_ROW_PARAMS(__VA_ARGS__), AM_ROW_ARGS(__VA_ARGS__), \
               AM_ROW_SIG(__VA_ARGS__))

#define AM_ROW_PARAMS(...) (AM_ROW(AM_ROW_PARAM, AM_ROW_COMMA, void, ##__VA_ARGS__))
#define AM_ROW_ARGS(...) (AM_ROW(AM_ROW_ARG, AM_ROW_COMMA, , ##__VA_ARGS__))
#define AM_ROW_SIG(...) AM_ROW(AM_ROW_TEXT, AM_ROW_SPACE, "", ##__VA_ARGS__)

#define AM_ROW_PARAM(type_, name_, ...) type_ name_
#define AM_ROW_ARG(type_, name_, ...) name_
#define AM_ROW_TEXT(type_, name_, letter_, ...) #name_ ":" #letter_
#define AM_ROW_COMMA() ,
#define AM_ROW_SPACE() " "
#define AM_ROW_NOTHING()

/*
 * What a mark means: AM_CHECK_mark(name_) is "~, statements" for a mark with a check, and is not
 * defined for others.  The letter stands for the mark of an argument without one.
 */
#define AM_ROW_CHECKS(...) AM_ROW(AM_ROW_CHECK, AM_ROW_NOTHING, , ##__VA_ARGS__)
#define AM_ROW_CHECK(type_, name_, letter_, ...) \
    AM_ROW_PICK_2(AM_ROW_MARK(AM_CHECK_, letter_, ##__VA_ARGS__, letter_)(name_), )
#define AM_ROW_MARK(prefix_, letter_, mark_, ...) prefix_##mark_
#define AM_ROW_PICK_2(...) AM_ROW_PICK_2_OF(__VA_ARGS__)
#define AM_ROW_PICK_2_OF(a, b, ...) b
#define AM_ROW_PICK_3(...) AM_ROW_PICK_3_OF(__VA_ARGS__)
#define AM_ROW_PICK_3_OF(a, b, c, ...) c

/*
 * In the same way AM_FIND_mark(name_) is "~, statements" that find an object, and
 * AM_OBJECT_mark(name_) is "~, type, variable" of the object, which the implementation gets
 * instead of the argument.
 */
#define AM_OBJECT_stream(name_) ~, struct am_stream *, name_##_object
#define AM_OBJECT_own_stream AM_OBJECT_stream
#define AM_OBJECT_event(name_) ~, struct am_event *, name_##_object
#define AM_OBJECT_notify AM_OBJECT_event
#define AM_OBJECT_model(name_) ~, struct am_model *, name_##_object
#define AM_OBJECT_complete_model AM_OBJECT_model
#define AM_OBJECT_context(name_) ~, struct am_context *, name_##_object
#define AM_OBJECT_pool(name_) ~, struct am_pool *, name_##_object
#define AM_OBJECT_device(name_) ~, struct am_device *, name_##_object

#define AM_ROW_OBJECT_PARAMS(...) \
    (AM_ROW(AM_ROW_OBJECT_PARAM, AM_ROW_COMMA, void, ##__VA_ARGS__))
#define AM_ROW_OBJECT_PARAM(type_, name_, letter_, ...) \
    AM_ROW_PICK_2(AM_ROW_MARK(AM_OBJECT_, letter_, ##__VA_ARGS__, letter_)(name_), \
                  type_, ) \
    name_
#define AM_ROW_OBJECT_ARGS(...) (AM_ROW(AM_ROW_OBJECT_ARG, AM_ROW_COMMA, , ##__VA_ARGS__))
#define AM_ROW_OBJECT_ARG(type_, name_, letter_, ...) \
    AM_ROW_PICK_3(AM_ROW_MARK(AM_OBJECT_, letter_, ##__VA_ARGS__, letter_)(name_), , \
                  name_)
#define AM_ROW_FINDS(...) AM_ROW(AM_ROW_FIND, AM_ROW_NOTHING, , ##__VA_ARGS__)
#define AM_ROW_FIND(type_, name_, letter_, ...) \
    AM_ROW_PICK_2(AM_ROW_MARK(AM_FIND_, letter_, ##__VA_ARGS__, letter_)(name_), )

/* `each_` of every argument, with `between_` between two; `none_` if there are no arguments. */
#define AM_ROW(each_, between_, none_, ...) \
    AM_ROW_PICK(_, ##__VA_ARGS__, AM_ROW_10, AM_ROW_9, AM_ROW_8, AM_ROW_7, AM_ROW_6, \
                AM_ROW_5, AM_ROW_4, AM_ROW_3, AM_ROW_2, AM_ROW_1, AM_ROW_0) \
    (each_, between_, none_, ##__VA_ARGS__)
#define AM_ROW_PICK(_, a, b, c, d, e, f, g, h, i, j, row_, ...) row_
#define AM_ROW_0(each_, between_, none_) none_
#define AM_ROW_1(each_, between_, none_, a) each_ a
#define AM_ROW_2(e, b, n, a, ...) e a b() AM_ROW_1(e, b, n, __VA_ARGS__)
#define AM_ROW_3(e, b, n, a, ...) e a b() AM_ROW_2(e, b, n, __VA_ARGS__)
#define AM_ROW_4(e, b, n, a, ...) e a b() AM_ROW_3(e, b, n, __VA_ARGS__)
#define AM_ROW_5(e, b, n, a, ...) e a b() AM_ROW_4(e, b, n, __VA_ARGS__)
#define AM_ROW_6(e, b, n, a, ...) e a b() AM_ROW_5(e, b, n, __VA_ARGS__)
#define AM_ROW_7(e, b, n, a, ...) e a b() AM_ROW_6(e, b, n, __VA_ARGS__)
#define AM_ROW_8(e, b, n, a, ...) e a b() AM_ROW_7(e, b, n, __VA_ARGS__)
#define AM_ROW_9(e, b, n, a, ...) e a b() AM_ROW_8(e, b, n, __VA_ARGS__)
#define AM_ROW_10(e, b, n, a, ...) e a b() AM_ROW_9(e, b, n, __VA_ARGS__)

#endif
