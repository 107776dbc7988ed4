/*
 * What an operator returns: the operator table, inference with meta kernels, and its cache.
 *
 * The meta tensors of an inference have one storage for each device storage.  A result whose storage is an
 * argument's is the argument or a view of it; this covers views, in-place operators and out= without a list of
 * operators.  Many meta kernels are Python functions (20 to 500 us), so plans are cached by the shapes of the
 * arguments.
 */
#include "npu.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/Exception.h>

namespace npu
{

namespace
{

struct {
    std::mutex lock;
    std::unordered_map<const void *, std::unique_ptr<Operator>> all; /* lock; by the address of the schema */
} table;

std::atomic<size_t> plans_max{65536};
std::atomic<size_t> n_plans{0};

/* Operators whose meta kernel disagrees with the CPU kernel. */
bool is_meta_wrong(const std::string &name)
{
    return name.rfind("aten::_embedding_bag", 0) == 0;
}

bool is_tensor_type(const c10::TypePtr &type)
{
    std::string text = type->str();

    return text == "Tensor" || text == "Tensor[]" || text == "List[Tensor]" || text == "Tensor?[]";
}

int written_argument(const c10::FunctionSchema &schema, const c10::Argument &result)
{
    const auto *alias = result.alias_info();

    if (alias == nullptr || !alias->isWrite())
        return -1;
    for (size_t i = 0; i < schema.arguments().size(); i++) {
        const auto *other = schema.arguments()[i].alias_info();

        if (other != nullptr && *other == *alias)
            return (int)i;
    }
    return -1;
}

} // namespace

Operator::Operator(const c10::OperatorHandle &op)
    : name(c10::toString(op.operator_name())), has_cpu(op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)),
      has_meta(op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta) && !is_meta_wrong(name)),
      may_index(name.find("index") != std::string::npos || name.find("_copy") != std::string::npos)
{
    const auto &schema = op.schema();

    for (size_t i = 0; i < schema.arguments().size(); i++) {
        const auto &argument = schema.arguments()[i];
        std::string type = argument.type()->str();

        is_written.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
        if (type.find("Generator") != std::string::npos)
            generator = (int)i;
        else if (type.rfind("Device", 0) == 0)
            device = (int)i;
    }
    for (const auto &result : schema.returns()) {
        has_values |= !is_tensor_type(result.type());
        returned.push_back(written_argument(schema, result));
    }
}

Operator &operator_of(const c10::OperatorHandle &op)
{
    thread_local std::unordered_map<const void *, Operator *> known;
    Operator *&mine = known[&op.schema()];

    if (mine == nullptr) {
        std::lock_guard<std::mutex> guard(table.lock);
        auto &entry = table.all[&op.schema()];

        if (!entry)
            entry = std::make_unique<Operator>(op);
        mine = entry.get();
    }
    return *mine;
}

void operators_each(const std::function<void(Operator &)> &function)
{
    std::lock_guard<std::mutex> guard(table.lock);

    for (auto &[schema, op] : table.all)
        function(*op);
}

void set_plans_max(size_t entries)
{
    plans_max = entries;
    operators_each([](Operator &op) {
        std::lock_guard<std::mutex> guard(op.lock);

        n_plans -= op.plans.size();
        op.plans.clear();
    });
}

/* ---- arguments ---- */

int Arguments::find(const Tensor &tensor) const
{
    for (size_t i = 0; i < tensors.size(); i++) {
        if (tensors[i].is_same(tensor))
            return (int)i;
    }
    return -1;
}

void Arguments::add_tensor(const Tensor &tensor, bool is_write)
{
    int known = find(tensor);
    size_t shared = 0;
    const auto *impl = tensor.unsafeGetTensorImpl();

    if (known >= 0) {
        is_written[known] |= is_write;
        key += 'r';
        put_number(known);
        return;
    }
    while (shared < tensors.size() &&
           tensors[shared].storage().unsafeGetStorageImpl() != tensor.storage().unsafeGetStorageImpl())
        shared++;
    tensors.push_back(tensor);
    is_written.push_back(is_write);
    key += 't';
    put_number(tensor.dim());
    put(tensor.sizes().data(), sizeof(int64_t) * tensor.dim());
    put(tensor.strides().data(), sizeof(int64_t) * tensor.dim());
    put_number(tensor.storage_offset());
    put_number((int64_t)tensor.scalar_type() | impl->is_wrapped_number() << 8 | is_npu(tensor) << 9 |
               tensor.is_conj() << 10 | tensor.is_neg() << 11 | (int64_t)shared << 12);
}

void Arguments::add_value(const IValue &value)
{
    if (value.isNone()) {
        key += 'N';
    } else if (value.isInt()) {
        key += 'i';
        put_number(value.toInt());
    } else if (value.isBool()) {
        key += value.toBool() ? 'T' : 'F';
    } else if (value.isDouble()) {
        double number = value.toDouble();

        key += 'd';
        put(&number, sizeof number);
    } else if (value.isComplexDouble()) {
        auto number = value.toComplexDouble();

        key += 'c';
        put(&number, sizeof number);
    } else if (value.isString()) {
        key += 's';
        key += value.toStringRef();
        key += '\0';
    } else if (value.isDevice()) {
        key += 'D';
    } else if (value.isList()) {
        auto list = value.toListRef();

        key += 'L';
        put_number((int64_t)list.size());
        for (const IValue &element : list)
            add_value(element);
    } else {
        has_key = false;
    }
}

Arguments::Arguments(const Operator &op, const Stack &stack) : base(stack.size() - op.is_written.size())
{
    key.reserve(256);
    for (size_t i = 0; i < op.is_written.size(); i++) {
        const IValue &value = stack[base + i];

        if ((int)i == op.generator) {
            key += 'g';
        } else if (value.isTensor()) {
            if (value.toTensor().defined())
                add_tensor(value.toTensor(), op.is_written[i]);
            else
                key += 'U';
        } else if (value.isTensorList() || value.isOptionalTensorList()) {
            key += 'X';
            put_number((int64_t)value.toListRef().size());
            for (const IValue &element : value.toListRef()) {
                if (element.isTensor() && element.toTensor().defined())
                    add_tensor(element.toTensor(), op.is_written[i]);
                else
                    key += 'U';
            }
        } else {
            add_value(value);
        }
    }
    put_number((int64_t)c10::get_default_dtype_as_scalartype());
}

/* ---- inference ---- */

namespace
{

/* Meta tensors of the arguments, in order. */
std::vector<Tensor> meta_tensors(const std::vector<Tensor> &tensors)
{
    std::vector<Tensor> metas;
    std::unordered_map<const c10::StorageImpl *, c10::Storage> storages;

    for (const Tensor &tensor : tensors) {
        const auto *impl = tensor.storage().unsafeGetStorageImpl();

        /* Python's bridge asserts that a wrapped number is not a meta tensor. */
        if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
            metas.push_back(tensor);
            continue;
        }
        auto found = storages.find(impl);

        if (found == storages.end())
            found = storages
                        .emplace(impl, c10::Storage(c10::Storage::use_byte_size_t(), impl->nbytes(),
                                                    c10::DataPtr(nullptr, Device(at::kMeta)),
                                                    c10::GetAllocator(at::kMeta), true))
                        .first;
        Tensor meta =
            at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(found->second),
                                                     c10::DispatchKeySet(c10::DispatchKey::Meta), tensor.dtype());

        meta.unsafeGetTensorImpl()->set_storage_offset(tensor.storage_offset());
        meta.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
        if (tensor.is_conj())
            meta._set_conj(true);
        if (tensor.is_neg())
            meta._set_neg(true);
        metas.push_back(meta);
    }
    return metas;
}

Plan::Result result_of(const Tensor &tensor, const std::vector<Tensor> &metas)
{
    Plan::Result result;

    if (!tensor.defined())
        return result;
    result.kind = Plan::FRESH;
    result.sizes = tensor.sizes().vec();
    result.strides = tensor.strides().vec();
    result.offset = tensor.storage_offset();
    result.type = tensor.scalar_type();
    for (size_t i = 0; i < metas.size(); i++) {
        if (metas[i].is_same(tensor)) {
            result.kind = Plan::ARGUMENT;
            result.tensor = (int)i;
            return result;
        }
        if (result.kind == Plan::FRESH &&
            metas[i].storage().unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl()) {
            result.kind = Plan::VIEW;
            result.tensor = (int)i;
        }
    }
    return result;
}

Plan::Return return_of(const IValue &value, const std::vector<Tensor> &metas)
{
    Plan::Return result;

    result.is_list = value.isTensorList();
    if (value.isTensor()) {
        result.results.push_back(result_of(value.toTensor(), metas));
    } else {
        for (const Tensor &tensor : value.toTensorVector())
            result.results.push_back(result_of(tensor, metas));
    }
    return result;
}

std::shared_ptr<const Plan> infer(const c10::OperatorHandle &handle, Operator &op, const Arguments &arguments,
                                  const Stack &stack)
{
    auto plan = std::make_shared<Plan>();
    std::vector<Tensor> metas = meta_tensors(arguments.tensors);
    Stack call;

    for (size_t i = 0; i < op.is_written.size(); i++) {
        const IValue &value = stack[arguments.base + i];

        if (value.isDevice())
            call.emplace_back(Device(at::kMeta));
        else if ((int)i == op.generator)
            call.emplace_back();
        else
            call.push_back(map_tensors(value, [&](const Tensor &tensor) { return metas[arguments.find(tensor)]; }));
    }
    Stack arguments_alive(call);

    {
        at::AutoDispatchBelowADInplaceOrView guard;

        handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &call);
    }
    for (size_t i = 0; i < metas.size(); i++) {
        if (arguments.is_written[i] && arguments.tensors[i].sizes() != metas[i].sizes()) {
            plan->resizes.push_back(result_of(metas[i], metas));
            plan->resizes.back().tensor = (int)i;
        }
    }
    for (size_t i = 0; i < call.size(); i++) {
        int written = op.returned[i];

        /* A boxed kernel with several references may return freed tensors: use the argument itself. */
        if (written >= 0 && stack[arguments.base + written].isTensor()) {
            Plan::Return result;

            result.results.emplace_back();
            result.results[0].kind = Plan::ARGUMENT;
            result.results[0].tensor = arguments.find(stack[arguments.base + written].toTensor());
            plan->returns.push_back(std::move(result));
        } else {
            plan->returns.push_back(return_of(call[i], metas));
        }
    }
    return plan;
}

} // namespace

std::shared_ptr<const Plan> plan_of(const c10::OperatorHandle &handle, Operator &op, const Arguments &arguments,
                                    const Stack &stack, std::string *ret_reason)
{
    bool is_cached = arguments.has_key && plans_max > 0;

    if (is_cached) {
        std::lock_guard<std::mutex> guard(op.lock);
        auto found = op.plans.find(arguments.key);

        if (found != op.plans.end())
            return found->second;
    }
    op.stats.inferences++;
    try {
        auto plan = infer(handle, op, arguments, stack);

        if (is_cached) {
            std::lock_guard<std::mutex> guard(op.lock);

            if (n_plans >= plans_max) { /* this operator's plans make room */
                n_plans -= op.plans.size();
                op.plans.clear();
            }
            if (op.plans.emplace(arguments.key, plan).second)
                n_plans++;
        }
        return plan;
    } catch (const c10::NotImplementedError &) {
        op.has_meta = false;
        *ret_reason = "the meta kernel is not implemented";
    } catch (const std::exception &error) {
        *ret_reason = std::string("the meta kernel raised: ") + std::string(error.what()).substr(0, 160);
    }
    return nullptr;
}

} // namespace npu
