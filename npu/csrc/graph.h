/* A graph: operators that are captured once and replayed.  Task groups: captured operators that can be replaced. */
#pragma once

#include "memory.h"

namespace npu
{

/* The state of one generator in a graph. */
struct GraphDraws {
    at::Generator generator;
    uint64_t n = 0; /* random operators of the graph that use it */
    std::shared_ptr<Draw> replay = std::make_shared<Draw>();
};

/* What a capture collects, and a graph owns. */
struct Captured {
    std::vector<std::unique_ptr<Task>> tasks;
    std::vector<GraphDraws> draws;
    PoolId pool{0, 0};
};

class Graph
{
  public:
    Graph() = default;
    Graph(const Graph &) = delete;
    Graph &operator=(const Graph &) = delete;
    ~Graph();

    void capture_begin(std::optional<PoolId> pool, const std::string &mode);
    void capture_end();
    void replay();
    void reset();
    PoolId pool() const;
    void debug_dump(const std::string &path) const;

  private:
    aclmdlRI model_ = nullptr;
    aclmdlRI capture_ = nullptr; /* under way */
    Stream *stream_ = nullptr;   /* of the capture; NULL: it has not begun */
    int device_ = 0;
    Captured captured_;
};

/* For torch.accelerator.Graph, where this PyTorch has it. */
void register_graphs();

/* The operators of a task group.  A replay runs those of the last update. */
struct TaskGroup {
    std::vector<std::unique_ptr<Task>> tasks;
    PoolId pool{0, 0}; /* of the graph */
};

/* Operators of the calling thread on the captured stream become one task, until the end. */
void group_begin(Stream &stream);
std::shared_ptr<TaskGroup> group_end(Stream &stream);
/* Operators of the calling thread on the stream replace those of the group when the stream gets there. */
void group_update_begin(Stream &stream, std::shared_ptr<TaskGroup> group);
void group_update_end(Stream &stream);

} // namespace npu
