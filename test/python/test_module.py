"""What the module consists of: names, constants, stubs, documentation, and where it can be imported."""
import inspect
import os
import re
import shutil
import subprocess
import sys
import types

import pytest

import acl
import facts

# The names that the documents of pyACL give, where they do not follow the rule.
EXCEPTIONS = {
    "aclrtGetSocName": ["get_soc_name"],
    "aclrtGetVersion": ["get_version"],
    "aclrtSetCurrentContext": ["rt.set_context"],
    "aclrtGetCurrentContext": ["rt.get_context"],
    "aclrtUnSubscribeReport": ["rt.unsubscribe_report"],
    "aclrtIpcMemImportByKey": ["rt.ipc_mem_import_by_key", "rt.ipc_mem_import_byKey"],
}

# The signatures that the documents of pyACL give.
DOCUMENTED = """
vir_ptr, ret = rt.reserve_mem_address(size, alignment, expect_ptr, flags)
ret = rt.release_mem_address(vir_ptr)
handle, ret = rt.malloc_physical(size, prop, flags)
ret = rt.map_mem(vir_ptr, size, offset, handle, flags)
ret = rt.unmap_mem(vir_ptr)
ret = rt.free_physical(handle)
granularity, ret = rt.mem_get_allocation_granularity(prop, option)
shareable_handle, ret = rt.mem_export_to_shareable_handle(handle, handle_type, flags)
ret = rt.mem_set_pid_to_shareable_handle(shareable_handle, pid)
handle, ret = rt.mem_import_from_shareable_handle(shareable_handle, device_id)
pid, ret = rt.device_get_bare_tgid()
key, ret = rt.ipc_mem_get_export_key(dev_ptr, size, len, flags)
dev_ptr, ret = rt.ipc_mem_import_by_key(key, flags)
dev_ptr, ret = rt.ipc_mem_import_byKey(key, flags)
ret = rt.ipc_mem_close(key)
host_ptr, ret = rt.malloc_host(size)
ret = rt.free_host(host_ptr)
host_ptr, ret = rt.malloc_host_with_cfg(size, cfg)
dev_ptr, ret = rt.host_register(ptr, size, type)
ret = rt.host_register_v2(ptr, size, flag)
dev_ptr, ret = rt.host_get_device_pointer(ptr_host, flag)
ret = rt.host_unregister(ptr)
dev_ptr, ret = rt.malloc(size, policy)
dev_ptr, ret = rt.malloc_align32(size, policy)
dev_ptr, ret = rt.malloc_cached(size, policy)
dev_ptr, ret = rt.malloc_with_cfg(size, policy, cfg)
ret = rt.free(dev_ptr)
ret = rt.mem_flush(dev_ptr, size)
ret = rt.mem_invalidate(dev_ptr, size)
free, total, ret = rt.get_mem_info(attr)
ret = rt.memcpy(dst, dest_max, src, count, kind)
ret = rt.memcpy_async(dst, dest_max, src, count, kind, stream)
ret = rt.memcpy2d(dst, dpitch, src, spitch, width, height, kind)
ret = rt.memcpy2d_async(dst, dpitch, src, spitch, width, height, kind, stream)
ret = rt.memset(dev_ptr, max_count, value, count)
ret = rt.memset_async(dev_ptr, max_count, value, count, stream)
ret = init(config_path)
ret = finalize()
count, ret = finalize_reference()
ret = rt.set_device(device_id)
ret = rt.reset_device(device_id)
ret = rt.reset_device_force(device_id)
device_id, ret = rt.get_device()
count, ret = rt.get_device_count()
run_mode, ret = rt.get_run_mode()
context, ret = rt.create_context(device_id)
ret = rt.destroy_context(context)
ret = rt.set_context(context)
context, ret = rt.get_context()
stream, ret = rt.create_stream()
stream, ret = rt.create_stream_with_config(priority, flag)
ret = rt.destroy_stream(stream)
ret = rt.synchronize_stream(stream)
ret = rt.synchronize_stream_with_timeout(stream, timeout)
status, ret = rt.stream_query(stream)
ret = rt.stream_abort(stream)
ret = rt.stream_wait_event(stream, event)
event, ret = rt.create_event()
event, ret = rt.create_event_with_flag(flag)
ret = rt.destroy_event(event)
ret = rt.record_event(event, stream)
ret = rt.reset_event(event, stream)
status, ret = rt.query_event(event)
status, ret = rt.query_event_status(event)
status, ret = rt.query_event_wait_status(event)
ret = rt.synchronize_event(event)
ms, ret = rt.event_elapsed_time(start, end)
timestamp, ret = rt.event_get_timestamp(event)
ret = rt.synchronize_device()
ret = rt.launch_callback(fn, user_data_list, block_type, stream)
ret = rt.subscribe_report(thread_id, stream)
ret = rt.process_report(timeout)
ret = rt.unsubscribe_report(thread_id, stream)
major_version, minor_version, patch_version, ret = get_version()
can_access_peer, ret = rt.device_can_access_peer(dev_id, peer_dev_id)
ret = rt.device_enable_peer_access(peer_dev_id, flags)
value = create_data_buffer(data, size)
ret = destroy_data_buffer(data_buffer)
dataset, ret = mdl.add_dataset_buffer(dataset, data_buffer)
thread_id, ret = util.start_thread(func, args_list)
ret = util.stop_thread(thread_id)
""".strip().splitlines()


def by_rule(function):
    """aclrtMapMem -> rt.map_mem"""
    prefix, name = re.match(r"acl(rt|sys|mdl|)([A-Z].*)", function).groups()
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()
    # "P2P" and "PCIBusId" are words, and a digit goes with the word before it.
    name = name.replace("p2_p_map", "p2p_map").replace("p2_pmap", "p2p_map")
    return prefix + "." * bool(prefix) + name


@pytest.mark.parametrize("function", facts.IMPLEMENTED)
def test_every_implemented_function_has_a_wrapper_with_its_name(function):
    assert facts.TABLE.get(function) == EXCEPTIONS.get(function, [by_rule(function)])


@pytest.mark.parametrize("function", facts.UNSUPPORTED)
def test_every_declared_function_has_a_wrapper(function):
    assert facts.TABLE.get(function) == EXCEPTIONS.get(function, [by_rule(function)])


@pytest.mark.parametrize("function", sorted(set(facts.DATA) - {"aclSetTensorShapeRange", "aclSetTensorPlaceMent"}))
def test_every_function_for_data_has_a_wrapper(function):
    assert facts.TABLE.get(function) == [by_rule(function)]


@pytest.mark.parametrize("path", facts.PATHS)
def test_every_function_has_a_docstring_and_a_stub_that_agree(path):
    function = facts.resolve(path)
    names = list(inspect.signature(function).parameters)
    assert names == [name for name, _ in facts.arguments(path)]
    sentence = facts.STUBS[path].body[0].value.value
    assert sentence[:20] in " ".join(function.__doc__.split())
    assert len(sentence) > 8 and sentence.endswith(".")
    if path in facts.C_FUNCTION:
        assert "In C: " in function.__doc__ and facts.C_FUNCTION[path] + "(" in function.__doc__


def test_nothing_else_is_in_the_module():
    found = set()
    for prefix, module in (("", acl), ("mdl.", acl.mdl), ("rt.", acl.rt), ("sys.", acl.sys), ("util.", acl.util)):
        found |= {prefix + n for n in dir(module) if isinstance(getattr(module, n), types.BuiltinFunctionType)}
    found = {path for path in found if not path.rpartition(".")[2].startswith("__")}
    assert found == set(facts.PATHS) == set(facts.STUBS)


@pytest.mark.parametrize("line", DOCUMENTED)
def test_documented_signatures(line):
    outputs, path, inputs = re.match(r"(.*) = ([\w.]+)\((.*)\)", line).groups()
    doc = facts.resolve(path).__doc__
    assert " ".join(doc.split()).startswith("%s = acl.%s(%s)" % (outputs, path, inputs))
    n_outputs = len(outputs.split(", "))
    returns = facts.ast.unparse(facts.STUBS[path].returns)
    assert (returns.count(",") + 1 == n_outputs and returns.startswith("tuple")) or (n_outputs == 1 and returns == "int")


def test_the_manual_has_every_signature():
    with open(os.path.join(facts.ROOT, "docs", "PYTHON.md"), encoding="utf-8") as file:
        shown = re.findall(r"^\| `((?:[\w, ]+ = )?acl\.([\w.]+)\(.*?\))` \|", file.read(), flags=re.M)
    shown = {path: line for line, path in shown if path in facts.PATHS}
    assert shown == {path: " ".join(facts.resolve(path).__doc__.split("\n\n")[0].split()) for path in facts.PATHS}


def header_constants():
    """name -> value, as far as the headers have numbers."""
    folder = os.path.join(facts.ROOT, "include", "acl")
    text = "".join(facts.read(os.path.join(at, n)) for at, _, names in os.walk(folder) for n in names)
    found = re.findall(r"#define\s+(ACL\w+)\s+(-?\w+)\s*$", text, flags=re.M)
    found += re.findall(r"\b(ACL\w+)\s*=\s*(-?\w+)", text)
    number = re.compile(r"(-?(?:0x[0-9A-Fa-f]+|\d+))U?L?L?$")
    return {name: int(number.match(value).group(1), 0) for name, value in found if number.match(value)}


def test_every_constant_of_the_headers_is_there():
    constants = header_constants()
    assert len(constants) > 500
    assert constants == {n: v for n, v in vars(acl).items() if re.match(r"ACL\w*_", n)}


def test_help_reads_well():
    text = acl.rt.map_mem.__doc__
    assert "ret = acl.rt.map_mem(vir_ptr, size, offset, handle, flags)" in text
    assert "vir_ptr: int or None" in text and "ret: int, 0 or an error code" in text
    assert max(map(len, text.splitlines())) <= 90
    assert "prop: dict {handleType, allocationType, memAttr, location {id, type}, reserve}" in acl.rt.malloc_physical.__doc__
    assert "cfg: dict {attrs [{attr, value {moduleId, " in acl.rt.malloc_with_cfg.__doc__


def run(code, **environment):
    """A fresh interpreter, without the library's folder in its environment."""
    env = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    env.update(environment)
    done = subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True, timeout=120)
    return done.returncode, done.stdout


def test_the_library_is_found_without_a_search_path():
    status, said = run("import acl; print(acl.init(), acl.get_soc_name())")
    assert (status, said) == (0, "0 Ascend910B1\n")


def test_another_python_is_told_what_the_module_is_built_for(tmp_path):
    package = tmp_path / "acl"
    package.mkdir()
    shutil.copy(os.path.join(facts.PACKAGE, "__init__.py"), package)
    (package / "__init__.cpython-399-somewhere.so").touch()  # no Python here takes a file of this name
    done = subprocess.run([sys.executable, "-B", "-c", "import acl"], env=dict(os.environ, PYTHONPATH=str(tmp_path)),
                          stderr=subprocess.PIPE, universal_newlines=True)
    assert done.returncode == 1
    assert re.search("ImportError: .*acl is not for this Python: .*cpython-399-somewhere.*ACLMEM_PYTHON=", done.stderr)


def test_submodules_can_be_imported_by_name():
    status, said = run("import acl.mdl, acl.rt, acl.util, acl.sys; from acl.rt import map_mem; print(acl.rt.map_mem is map_mem)")
    assert (status, said) == (0, "True\n")


def test_a_sub_interpreter_is_refused():
    interpreters = pytest.importorskip("_xxsubinterpreters", reason="this Python has no sub-interpreters to try")
    inner = interpreters.create()
    with pytest.raises(interpreters.RunFailedError, match="sub-interpreter"):
        interpreters.run_string(inner, "import sys; sys.path[:] = %r\nimport acl" % sys.path)
    interpreters.destroy(inner)
    assert acl.rt.get_last_error(0) >= 0  # and ours still works


def test_it_can_be_imported_again():
    status, said = run("import sys, acl; f = acl.init; [sys.modules.pop(n) for n in list(sys.modules) if n[:3] == 'acl']\n"
                       "import acl; print(f(), acl.init(), acl.finalize())")
    assert (status, said) == (0, "0 100002 0\n")


def test_a_child_of_fork_is_refused(world):
    """As in C; every call of the child gives 207000, and nothing hangs."""
    child = os.fork()
    if child == 0:
        codes = {acl.rt.get_device_count()[1], acl.rt.set_device(0), acl.rt.synchronize_device()}
        os._exit(0 if codes == {acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT} else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert acl.rt.get_device_count() == (2, 0)


def test_the_version_is_the_projects():
    assert 'project(aclmem VERSION %s ' % acl.__version__ in facts.read("CMakeLists.txt")
