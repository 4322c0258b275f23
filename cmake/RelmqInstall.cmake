# Headers, libraries, programs, pkg-config file and CMake package.
include(CMakePackageConfigHelpers)

install(TARGETS relmq_shared relmq_static EXPORT relmq-targets
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS relmq_flags EXPORT relmq-targets) # named by the static library's private links
install(TARGETS relmq relmq-publisher relmq-consumer relmq-dlx
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${relmq_public_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/relmq)
install(DIRECTORY rabbit-policies DESTINATION ${CMAKE_INSTALL_DATADIR}/relmq
    USE_SOURCE_PERMISSIONS)

set(relmq_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/relmq)
install(EXPORT relmq-targets NAMESPACE relmq:: DESTINATION ${relmq_cmake_dir})
configure_package_config_file(cmake/relmq-config.cmake.in
    ${CMAKE_CURRENT_BINARY_DIR}/relmq-config.cmake INSTALL_DESTINATION ${relmq_cmake_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/relmq-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/relmq-config.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/relmq-config-version.cmake DESTINATION ${relmq_cmake_dir})

# Relative to the file itself, so that an installation can be moved.
file(RELATIVE_PATH relmq_pc_to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" relmq_pc_to_prefix "${relmq_pc_to_prefix}")
configure_file(cmake/relmq.pc.in ${CMAKE_CURRENT_BINARY_DIR}/relmq.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/relmq.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
