/* mq/amqp.h - rabbitmq-c's headers under whichever name this version has: since 0.12
 * they live in rabbitmq-c/, and the old names warn. */
#ifndef RELMQ_MQ_AMQP_H
#define RELMQ_MQ_AMQP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>

#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/amqp.h>
#include <rabbitmq-c/framing.h>
#include <rabbitmq-c/ssl_socket.h>
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#endif

#endif
