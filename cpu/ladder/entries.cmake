# The rungs of the teaching ladder: cpu/ladder/NN_<idea>.c. Each is compiled for every type and several instruction
# sets: a small file written here includes it with T, and the vectors if it wants them, in place. `builds` in its header says how; the
# first one bears the rung's name, a second one has /auto after it.
#
#   scalar   Without vectors, so that the rung shows what its own idea brings and not what the compiler adds: gcc at
#            -O3 would vectorise, interchange the loops of 01 into those of 02, and jam the rows of 02 into the tile
#            of 04. With the FMA of AVX2 where there is one: the peak it is compared with has it too.
#   auto     The same file as the project compiles everything: what the compiler makes of it for this CPU.
#   vector   Written with the vectors of vec_*.h.
include(CheckCCompilerFlag)

set(scalar_flags "")
foreach(flag no-tree-vectorize no-tree-slp-vectorize no-loop-interchange no-loop-unroll-and-jam)
  string(MAKE_C_IDENTIFIER "HAS_F_${flag}" known)
  check_c_compiler_flag("-f${flag}" ${known})
  if(${known})
    list(APPEND scalar_flags "-f${flag}")
  endif()
endforeach()

set(ctype_f32 float)
set(ctype_f64 double)
set(ladder_files "")
set(ladder_externs "")
set(ladder_rows "")

# One file for each instruction set and type; a row of the table for the rung.
macro(add_rung stem build name)
  set(build_isas ${isas})
  set(build_flags "")
  if("${build}" STREQUAL "scalar")
    list(FILTER build_isas EXCLUDE REGEX avx512)
    set(build_flags ${scalar_flags})
  endif()
  string(APPEND ladder_rows "  {")
  foreach(type f32 f64)
    string(APPEND ladder_rows "{")
    foreach(isa IN LISTS build_isas)
      set(symbol "ladder_${isa}_${type}_${stem}_${build}")
      set(types "#define T ${ctype_${type}}")
      if("${build}" STREQUAL "vector" AND "${isa}" STREQUAL "portable")
        string(APPEND types "\n#include \"kernels/vec_portable.h\"")
      elseif("${build}" STREQUAL "vector")
        set(types "#include \"kernels/vec_${isa}_${type}.h\"")
      endif()
      set(file "${CMAKE_CURRENT_BINARY_DIR}/generated/${symbol}.c")
      file(CONFIGURE OUTPUT "${file}" CONTENT
"${types}
#define ENTRY ${symbol}
#define ENTRY_NAME \"${name}\"
#define ENTRY_ISA \"${isa}\"
#include \"ladder/${stem}.c\"
#include \"ladder/entry.h\"
" @ONLY)
      set_source_files_properties("${file}" PROPERTIES COMPILE_OPTIONS "${flags_${isa}};${build_flags}")
      list(APPEND ladder_files "${file}")
      string(APPEND ladder_externs "extern const ladder_entry ${symbol};\n")
      string(APPEND ladder_rows "&${symbol}, ")
    endforeach()
    string(APPEND ladder_rows "NULL}, ")
  endforeach()
  string(APPEND ladder_rows "},\n")
endmacro()

file(GLOB rung_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/cpu/ladder/[0-9]*.c")
foreach(source IN LISTS rung_sources)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
  get_filename_component(stem "${source}" NAME_WE)
  file(STRINGS "${source}" line REGEX "^ \\* builds = ")
  string(REGEX MATCHALL "[a-z]+" builds "${line}")
  list(REMOVE_AT builds 0) # the word itself
  set(name "${stem}")
  foreach(build IN LISTS builds)
    add_rung("${stem}" "${build}" "${name}")
    set(name "${stem}/auto")
  endforeach()
endforeach()

list(LENGTH isas isa_count)
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/generated/ladder_table.h" CONTENT
"${ladder_externs}
static const ladder_entry *const rungs[][TYPES][${isa_count} + 1 /* NULL */] = {
${ladder_rows}};
" @ONLY)
list(APPEND ladder_files "${CMAKE_CURRENT_SOURCE_DIR}/cpu/ladder/ladder.c")
