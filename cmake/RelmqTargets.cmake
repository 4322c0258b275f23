# What everything we compile has in common, and how migrations become C.

# Asserts on invariants stay on, in release builds too.
foreach(config RELEASE RELWITHDEBINFO MINSIZEREL)
  string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_${config} "${CMAKE_C_FLAGS_${config}}")
endforeach()

add_library(relmq_flags INTERFACE)
target_compile_options(relmq_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wconversion -Wshadow
    $<$<BOOL:${RELMQ_WERROR}>:-Werror>)
if(RELMQ_SANITIZE)
  target_compile_options(relmq_flags INTERFACE
      -fsanitize=${RELMQ_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(relmq_flags INTERFACE -fsanitize=${RELMQ_SANITIZE})
endif()

# The numbered .sql files as one generated C file: the programs carry their schema.
function(relmq_embed_migrations out)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated/schema.c)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  add_custom_command(
      OUTPUT ${generated}
      COMMAND ${CMAKE_COMMAND} "-DOUT=${generated}" "-DFILES=${files}"
              -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/embed_migrations.cmake
      DEPENDS ${files} ${CMAKE_CURRENT_SOURCE_DIR}/cmake/embed_migrations.cmake
      COMMENT "Embedding migrations"
      VERBATIM)
  set(${out} ${generated} PARENT_SCOPE)
endfunction()
