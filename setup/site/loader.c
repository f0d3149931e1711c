/* Imports a module of the compiled library: `load(capsule)` calls the function that initialises it, and returns it. */

#include <Python.h>

static PyObject *load(PyObject *self, PyObject *capsule) {
    void *found = PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule));
    return found ? ((PyObject *(*)(void))found)() : NULL;
}

static PyMethodDef methods[] = {{"load", load, METH_O, "Return the module that a capsule initialises."}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "mrclab_loader", NULL, -1, methods};

PyMODINIT_FUNC PyInit_mrclab_loader(void) { return PyModule_Create(&module); }
