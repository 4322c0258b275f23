# cmake -DOUT=schema.c -DFILES=a.sql;b.sql -P embed_migrations.cmake
# Writes each file as an array of bytes: no quoting rule and no length limit of string
# literals can change the text.
set(bodies "")
set(table "")
set(count 0)
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  string(REGEX MATCH "^[0-9]+" number ${name})
  string(REGEX REPLACE "^0+" "" number ${number})
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND bodies "static const char m${number}[] = { ${bytes} 0 };\n")
  string(APPEND table "\t{ ${number}, \"${name}\", m${number} },\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE ${OUT}
"/* Generated from common/schema by cmake/embed_migrations.cmake. */
#include \"db/schema.h\"

${bodies}
const relmq__migration relmq__migrations[] = {
${table}};
const int relmq__migration_count = ${count};
")
