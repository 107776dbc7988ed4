/* See graph.h. */
#include "graph.h"

#include <cstdio>

#include <c10/util/Exception.h>

#if NPU_HAS_GRAPH_IMPL
#include <ATen/core/GraphImplInterface.h>
#endif

namespace npu
{

namespace
{

aclmdlRICaptureMode mode_of(const std::string &text)
{
    if (text == "global")
        return ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
    if (text == "thread_local")
        return ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
    TORCH_CHECK(text == "relaxed", "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got ",
                text);
    return ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
}

struct {
    std::mutex lock; /* protects the rest */
    std::map<aclmdlRI, Captured> all;
} captures;

Captured capture_take(aclmdlRI capture)
{
    std::lock_guard<std::mutex> guard(captures.lock);
    Captured captured = std::move(captures.all[capture]);

    captures.all.erase(capture);
    return captured;
}

} // namespace

void capture_add(aclmdlRI capture, std::unique_ptr<Task> task)
{
    std::lock_guard<std::mutex> guard(captures.lock);

    captures.all[capture].tasks.push_back(std::move(task));
}

Draw capture_draw(aclmdlRI capture, const at::Generator &generator)
{
    std::lock_guard<std::mutex> guard(captures.lock);
    auto &draws = captures.all[capture].draws;
    auto found = std::find_if(draws.begin(), draws.end(), [&](auto &entry) { return entry.generator == generator; });

    if (found == draws.end())
        found = draws.insert(draws.end(), GraphDraws{generator});
    return {0, kDrawStep * found->n++, found->replay};
}

namespace
{

/* A graph that the program gave up. */
struct Remains {
    aclmdlRI model;
    int device;
    Captured captured;
};

struct {
    std::mutex lock;
    std::vector<Remains> list; /* lock */
} remains;

void free_now(Remains graph)
{
    wait_device(graph.device); /* replays use the tasks */
    aclmdlRIDestroy(graph.model);
    graph.captured.tasks.clear();
    pool_release(graph.device, graph.captured.pool);
}

/* Waiting for the device is an error during a capture, in which Python's garbage collection may free older graphs. */
void free_later(Remains graph)
{
    std::lock_guard<std::mutex> guard(remains.lock);

    remains.list.push_back(std::move(graph));
}

void free_remains()
{
    std::vector<Remains> list;

    {
        std::lock_guard<std::mutex> guard(remains.lock);

        if (n_captures == 0)
            list.swap(remains.list);
    }
    for (Remains &graph : list)
        free_now(std::move(graph));
}

struct {
    std::mutex lock;
    std::set<Graph *> all; /* lock; those with a model */
} graphs;

} // namespace

void graphs_free()
{
    for (;;) {
        std::unique_lock<std::mutex> guard(graphs.lock);

        if (graphs.all.empty())
            return;
        Graph *graph = *graphs.all.begin(); /* lives: threads that free graphs have the GIL */

        guard.unlock();
        graph->reset();
    }
}

Graph::~Graph()
{
    if (stream_ != nullptr && !is_in_bad_fork()) { /* the program gave up its capture */
        aclmdlRICaptureEnd(stream_->handle, &model_);
        pool_end(device_, captured_.pool);
        n_captures--;
        captured_ = capture_take(capture_);
    }
    try {
        reset();
    } catch (const std::exception &error) {
        fprintf(stderr, "aclmem.npu: a graph is not freed: %s\n", error.what());
    }
}

void Graph::capture_begin(std::optional<PoolId> pool, const std::string &mode)
{
    Stream &stream = current_stream(current_device());
    aclmdlRICaptureMode capture_mode = mode_of(mode);
    aclError rc;

    TORCH_CHECK(model_ == nullptr,
                "This NPUGraph instance already owns a captured graph. To capture a new graph, create a "
                "new instance.");
    TORCH_CHECK(stream.id != 0, "NPU graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them "
                "on the default stream.)");
    captured_.pool = pool && *pool != PoolId{0, 0} ? *pool : pool_new_id(false);
    device_ = stream.device;
    pool_begin(device_, captured_.pool, true);
    n_captures++;
    rc = aclmdlRICaptureBegin(stream.handle, capture_mode);
    if (rc != ACL_SUCCESS) {
        n_captures--;
        pool_end(device_, captured_.pool);
        pool_release(device_, captured_.pool);
        raise(rc, "aclmdlRICaptureBegin", __FILE__, __LINE__);
    }
    stream_ = &stream;
    capture_ = capture_of(stream);
    std::lock_guard<std::mutex> guard(captures.lock);

    captures.all[capture_].pool = captured_.pool;
}

void Graph::capture_end()
{
    Stream *stream = stream_;
    aclError rc;

    TORCH_CHECK(stream != nullptr, "capture_end() called before capture_begin().");
    TORCH_CHECK(stream == &current_stream(current_device()), "Capture must end on the same stream it began on.");
    stream_ = nullptr;
    rc = aclmdlRICaptureEnd(stream->handle, &model_);
    pool_end(device_, captured_.pool);
    n_captures--;
    captured_ = capture_take(capture_);
    free_remains();
    if (rc != ACL_SUCCESS) {
        model_ = nullptr;
        pool_release(device_, captured_.pool);
        raise(rc, "aclmdlRICaptureEnd", __FILE__, __LINE__);
    }
    std::lock_guard<std::mutex> guard(graphs.lock);

    graphs.all.insert(this);
}

void Graph::replay()
{
    TORCH_CHECK(model_ != nullptr, "Called NPUGraph::replay without a preceding successful capture.");
    Callers callers("replay graph");
    static const Accesses none;
    std::vector<std::pair<std::shared_ptr<Draw>, Draw>> states;

    for (GraphDraws &draws : captured_.draws)
        states.emplace_back(draws.replay, generator_advance(draws.generator, draws.n));
    if (!states.empty())
        launch_function(current_stream(device_), "random state of a graph", &none, [states] {
            for (auto &[replay, state] : states)
                *replay = state;
        });
    NPU_CHECK(aclmdlRIExecuteAsync(model_, current_stream(device_).handle));
}

void Graph::reset()
{
    if (model_ == nullptr || is_in_bad_fork() || is_shut_down())
        return;
    Remains graph{std::exchange(model_, nullptr), device_, std::exchange(captured_, {})};

    {
        std::lock_guard<std::mutex> guard(graphs.lock);

        graphs.all.erase(this);
    }
    if (n_captures > 0)
        free_later(std::move(graph));
    else
        free_now(std::move(graph));
}

PoolId Graph::pool() const
{
    TORCH_CHECK(model_ != nullptr, "Called NPUGraph::pool() without a preceding successful capture.");
    return captured_.pool;
}

void Graph::debug_dump(const std::string &path) const
{
    std::unique_ptr<FILE, int (*)(FILE *)> out(fopen(path.c_str(), "w"), fclose);

    TORCH_CHECK(out != nullptr, "cannot write ", path);
    fprintf(out.get(), "digraph npu {\n");
    for (size_t i = 0; i < captured_.tasks.size(); i++)
        fprintf(out.get(), "    t%zu [label=\"%s\"];\n", i, captured_.tasks[i]->name.c_str());
    fprintf(out.get(), "}\n");
}

#if NPU_HAS_GRAPH_IMPL
namespace
{

class AcceleratorGraph final : public at::GraphImplInterface
{
  public:
    void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode mode) override
    {
        graph_.capture_begin(PoolId{pool.first, pool.second}, mode == at::GraphCaptureMode::ThreadLocal ? "thread_local"
                                                              : mode == at::GraphCaptureMode::Relaxed   ? "relaxed"
                                                                                                        : "global");
    }
    void capture_end() override
    {
        graph_.capture_end();
    }
    void instantiate() override
    {
    }
    void replay() override
    {
        graph_.replay();
    }
    void reset() override
    {
        graph_.reset();
    }
    c10::MempoolId_t pool() const override
    {
        return {graph_.pool().first, graph_.pool().second};
    }
    void enable_debug_mode() override
    {
    }
    void debug_dump(const std::string &path) override
    {
        graph_.debug_dump(path);
    }

  private:
    Graph graph_;
};

} // namespace

void register_graphs()
{
    at::GraphImplRegistry()->Register(c10::DeviceTypeName(kDevice, false), [](const at::GraphImplArgs &) {
        return std::unique_ptr<at::GraphImplInterface>(new AcceleratorGraph);
    });
}
#else
void register_graphs()
{
}
#endif

/* ---- task groups ---- */

namespace
{

class GroupTask final : public Task
{
  public:
    explicit GroupTask(std::shared_ptr<TaskGroup> group) : Task("task group"), group_(std::move(group))
    {
    }
    void run() override
    {
        for (auto &task : group_->tasks)
            task_run_caught(*task);
    }

  private:
    std::shared_ptr<TaskGroup> group_;
};

/* The group that the thread fills. */
thread_local struct {
    Stream *stream = nullptr; /* NULL: none */
    std::vector<std::unique_ptr<Task>> tasks;
    Accesses accesses;
    std::shared_ptr<TaskGroup> updated;
} open_group;

void group_open(Stream &stream, std::shared_ptr<TaskGroup> updated)
{
    TORCH_CHECK(open_group.stream == nullptr, "a task group of this thread is open already");
    open_group = {&stream, {}, {}, std::move(updated)};
}

auto group_close(const Stream &stream, bool is_update)
{
    TORCH_CHECK(open_group.stream == &stream && (open_group.updated != nullptr) == is_update,
                is_update ? "no update of a task group has begun on this stream"
                          : "no task group has begun on this stream");
    return std::exchange(open_group, {});
}

} // namespace

bool group_add(Stream &stream, std::unique_ptr<Task> &task, const Accesses *accesses)
{
    if (open_group.stream != &stream)
        return false;
    if (accesses != nullptr)
        open_group.accesses.insert(open_group.accesses.end(), accesses->begin(), accesses->end());
    open_group.tasks.push_back(std::move(task));
    return true;
}

void group_begin(Stream &stream)
{
    TORCH_CHECK(is_capturing(stream), "a task group is part of a capture, and the stream is not captured");
    group_open(stream, nullptr);
}

std::shared_ptr<TaskGroup> group_end(Stream &stream)
{
    auto closed = group_close(stream, false);
    auto group = std::make_shared<TaskGroup>();

    group->tasks = std::move(closed.tasks);
    {
        std::lock_guard<std::mutex> guard(captures.lock);

        group->pool = captures.all[capture_of(stream)].pool;
    }
    launch(stream, std::make_unique<GroupTask>(group), &closed.accesses);
    return group;
}

void group_update_begin(Stream &stream, std::shared_ptr<TaskGroup> group)
{
    PoolId pool = group->pool;

    TORCH_CHECK(!is_capturing(stream), "task groups are updated on a stream that is not captured");
    group_open(stream, std::move(group));
    pool_begin(stream.device, pool, false); /* temporary memory of the operators is the graph's */
}

void group_update_end(Stream &stream)
{
    auto closed = group_close(stream, true);
    auto tasks = std::make_shared<std::vector<std::unique_ptr<Task>>>(std::move(closed.tasks));
    static const Accesses none;

    pool_end(stream.device, closed.updated->pool);
    pool_release(stream.device, closed.updated->pool);
    launch_function(stream, "update of a task group", &none,
                    [group = closed.updated, tasks] { group->tasks.swap(*tasks); });
}

} // namespace npu
