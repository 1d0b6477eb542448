//! Declarations of the C API: the order of the function table, and the argument structs of the functions in use.
//!
//! Names are the header's without `PJRT_`, `_Args` and underscores. A field that only the plugin fills in is marked
//! `out`.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

macro_rules! opaque {
    ($($name:ident)*) => {
        $(
            /// A foreign object, known by its address only.
            #[repr(C)]
            pub struct $name {
                _private: [u8; 0],
            }
        )*
    };
}

opaque! { Buffer Client Device DeviceDescription Error Event Executable LoadedExecutable Memory SerializedExecutable TopologyDescription }

/// `PJRT_Extension_Base`: the chain of extensions is never used here, always null.
type Extension = *mut c_void;

#[repr(C)]
pub struct ApiVersion {
    pub struct_size: usize,
    pub extension_start: Extension,
    pub major: c_int,
    pub minor: c_int,
}

/// The head of `PJRT_Api`; function pointers follow, in the order of [`Slot`].
#[repr(C)]
pub struct Api {
    pub struct_size: usize,
    pub extension_start: Extension,
    pub version: ApiVersion,
}

macro_rules! slots {
    ($($name:ident,)*) => {
        /// The table's functions in their order, to API 0.81; later versions only append.
        #[allow(dead_code)] // functions not in use still take their place
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Slot { $($name,)* }

        #[cfg(test)]
        pub const SLOTS: &[Slot] = &[$(Slot::$name,)*];
    };
}

slots! {
    ErrorDestroy, ErrorMessage, ErrorGetCode, PluginInitialize, PluginAttributes, EventDestroy, EventIsReady,
    EventError, EventAwait, EventOnReady, ClientCreate, ClientDestroy, ClientPlatformName, ClientProcessIndex,
    ClientPlatformVersion, ClientDevices, ClientAddressableDevices, ClientLookupDevice, ClientLookupAddressableDevice,
    ClientAddressableMemories, ClientCompile, ClientDefaultDeviceAssignment, ClientBufferFromHostBuffer,
    DeviceDescriptionId, DeviceDescriptionProcessIndex, DeviceDescriptionAttributes, DeviceDescriptionKind,
    DeviceDescriptionDebugString, DeviceDescriptionToString, DeviceGetDescription, DeviceIsAddressable,
    DeviceLocalHardwareId, DeviceAddressableMemories, DeviceDefaultMemory, DeviceMemoryStats, MemoryId, MemoryKind,
    MemoryDebugString, MemoryToString, MemoryAddressableByDevices, ExecutableDestroy, ExecutableName,
    ExecutableNumReplicas, ExecutableNumPartitions, ExecutableNumOutputs, ExecutableSizeOfGeneratedCodeInBytes,
    ExecutableGetCostAnalysis, ExecutableOutputMemoryKinds, ExecutableOptimizedProgram, ExecutableSerialize,
    LoadedExecutableDestroy, LoadedExecutableGetExecutable, LoadedExecutableAddressableDevices, LoadedExecutableDelete,
    LoadedExecutableIsDeleted, LoadedExecutableExecute, ExecutableDeserializeAndLoad, LoadedExecutableFingerprint,
    BufferDestroy, BufferElementType, BufferDimensions, BufferUnpaddedDimensions, BufferDynamicDimensionIndices,
    BufferGetMemoryLayout, BufferOnDeviceSizeInBytes, BufferDevice, BufferMemory, BufferDelete, BufferIsDeleted,
    BufferCopyToDevice, BufferToHostBuffer, BufferIsOnCpu, BufferReadyEvent, BufferUnsafePointer,
    BufferIncreaseExternalReferenceCount, BufferDecreaseExternalReferenceCount, BufferOpaqueDeviceMemoryDataPointer,
    CopyToDeviceStreamDestroy, CopyToDeviceStreamAddChunk, CopyToDeviceStreamTotalBytes, CopyToDeviceStreamGranuleSize,
    CopyToDeviceStreamCurrentBytes, TopologyDescriptionCreate, TopologyDescriptionDestroy,
    TopologyDescriptionPlatformName, TopologyDescriptionPlatformVersion, TopologyDescriptionGetDeviceDescriptions,
    TopologyDescriptionSerialize, TopologyDescriptionAttributes, Compile, ExecutableOutputElementTypes,
    ExecutableOutputDimensions, BufferCopyToMemory, ClientCreateViewOfDeviceBuffer, ExecutableFingerprint,
    ClientTopologyDescription, ExecutableGetCompiledMemoryStats, MemoryKindId, ExecuteContextCreate,
    ExecuteContextDestroy, BufferCopyRawToHost, AsyncHostToDeviceTransferManagerDestroy,
    AsyncHostToDeviceTransferManagerTransferData, ClientCreateBuffersForAsyncHostToDevice,
    AsyncHostToDeviceTransferManagerRetrieveBuffer, AsyncHostToDeviceTransferManagerDevice,
    AsyncHostToDeviceTransferManagerBufferCount, AsyncHostToDeviceTransferManagerBufferSize,
    AsyncHostToDeviceTransferManagerSetBufferError, AsyncHostToDeviceTransferManagerAddMetadata, ClientDmaMap,
    ClientDmaUnmap, ClientCreateUninitializedBuffer, ClientUpdateGlobalProcessInfo, TopologyDescriptionDeserialize,
    ClientCreateAliasBuffer, ClientFulfillAliasBuffer, LoadedExecutableGetDeviceAssignment,
}

/// The argument struct of the function at `SLOT`.
///
/// # Safety
/// The layout is the one that the function expects.
pub unsafe trait Arguments {
    const SLOT: Slot;
}

macro_rules! structs {
    ($list:ident: $($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            pub struct $name {
                pub struct_size: usize,
                pub extension_start: Extension,
                $(pub $field: $ty,)*
            }

            impl $name {
                /// Up to the end of the last field, as the header counts: padding after it may hold a field of a later
                /// version.
                pub const SIZE: usize = {
                    let end = size_of::<usize>() + size_of::<Extension>();
                    $(let end = { let _ = end; offset_of!($name, $field) + size_of::<$ty>() };)*
                    end
                };
            }

            impl Default for $name {
                /// All zero but for the size.
                fn default() -> Self {
                    // SAFETY: every field is an integer, a bool, a nullable pointer or a struct of those: all zeros is
                    // a value.
                    let zero: Self = unsafe { std::mem::zeroed() };
                    Self { struct_size: Self::SIZE, ..zero }
                }
            }
        )*

        #[cfg(test)]
        pub const $list: &[(&str, usize)] = &[$((stringify!($name), $name::SIZE),)*];
    };
}

macro_rules! arguments {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ty,)* })*) => {
        structs! { ARGUMENTS: $($(#[$doc])* $name { $($field: $ty,)* })* }
        $(
            // SAFETY: the fields are those of the header; a test compares order and sizes with it, others call the
            // functions.
            unsafe impl Arguments for $name {
                const SLOT: Slot = Slot::$name;
            }
        )*
    };
}

/// `PJRT_NamedValue_Type`
pub const TEXT: c_int = 0;
pub const INT: c_int = 1;
pub const INTS: c_int = 2;
pub const FLOAT: c_int = 3;
pub const BOOL: c_int = 4;

#[derive(Clone, Copy)]
#[repr(C)]
pub union Value {
    pub text: *const c_char,
    pub int: i64,
    pub ints: *const i64,
    pub float: f32,
    /// 0 or 1: a C bool.
    pub bool: u8,
}

/// `PJRT_HostBufferSemantics_kImmutableOnlyDuringCall`
pub const COPY_DURING_CALL: c_int = 0;
/// `PJRT_Buffer_MemoryLayout_Type_Tiled`
pub const TILED: c_int = 0;

structs! {
    STRUCTS:
    NamedValue { name: *const c_char, name_size: usize, kind: c_int, value: Value, value_size: usize, }
    Program { code: *const c_char, code_size: usize, format: *const c_char, format_size: usize, }
    TiledLayout {
        minor_to_major: *const i64,
        minor_to_major_size: usize,
        tile_dims: *const i64,
        tile_dim_sizes: *const usize,
        num_tiles: usize,
    }
    /// The C struct has a union here, whose largest member is the tiled layout.
    MemoryLayout { tiled: TiledLayout, kind: c_int, }
    ExecuteOptions {
        send_callbacks: *mut c_void,
        recv_callbacks: *mut c_void,
        num_send_ops: usize,
        num_recv_ops: usize,
        launch_id: c_int,
        non_donatable_input_indices: *const i64,
        num_non_donatable_input_indices: usize,
        context: *mut c_void,
        call_location: *const c_char,
        num_tasks: usize,
        task_ids: *mut c_int,
        incarnation_ids: *mut i64,
    }
}

arguments! {
    ErrorDestroy { error: *mut Error, }
    ErrorMessage { error: *const Error, /* out */ message: *const c_char, message_size: usize, }
    ErrorGetCode { error: *const Error, /* out */ code: c_int, }

    PluginInitialize {}
    PluginAttributes { /* out */ attributes: *const NamedValue, num_attributes: usize, }

    EventDestroy { event: *mut Event, }
    EventIsReady { event: *mut Event, /* out */ is_ready: bool, }
    EventAwait { event: *mut Event, }
    EventOnReady {
        event: *mut Event,
        callback: Option<unsafe extern "C" fn(error: *mut Error, user: *mut c_void)>,
        user: *mut c_void,
    }

    ClientCreate {
        options: *const NamedValue,
        num_options: usize,
        kv_get_callback: *mut c_void,
        kv_get_user_arg: *mut c_void,
        kv_put_callback: *mut c_void,
        kv_put_user_arg: *mut c_void,
        /* out */ client: *mut Client,
        kv_try_get_callback: *mut c_void,
        kv_try_get_user_arg: *mut c_void,
    }
    ClientDestroy { client: *mut Client, }
    ClientPlatformName { client: *mut Client, /* out */ text: *const c_char, text_size: usize, }
    ClientPlatformVersion { client: *mut Client, /* out */ text: *const c_char, text_size: usize, }
    ClientAddressableDevices { client: *mut Client, /* out */ devices: *const *mut Device, num_devices: usize, }
    ClientTopologyDescription { client: *mut Client, /* out */ topology: *mut TopologyDescription, }
    ClientCompile {
        client: *mut Client,
        program: *const Program,
        options: *const c_char,
        options_size: usize,
        /* out */ executable: *mut LoadedExecutable,
    }
    ClientBufferFromHostBuffer {
        client: *mut Client,
        data: *const c_void,
        element_type: c_int,
        dims: *const i64,
        num_dims: usize,
        byte_strides: *const i64,
        num_byte_strides: usize,
        semantics: c_int,
        device: *mut Device,
        memory: *mut Memory,
        device_layout: *mut MemoryLayout,
        /* out */ done_with_host_buffer: *mut Event,
        /* out */ buffer: *mut Buffer,
    }

    DeviceDescriptionId { description: *mut DeviceDescription, /* out */ id: c_int, }
    DeviceDescriptionKind { description: *mut DeviceDescription, /* out */ text: *const c_char, text_size: usize, }
    DeviceGetDescription { device: *mut Device, /* out */ description: *mut DeviceDescription, }
    DeviceLocalHardwareId { device: *mut Device, /* out */ id: c_int, }
    DeviceDefaultMemory { device: *mut Device, /* out */ memory: *mut Memory, }
    DeviceMemoryStats {
        device: *mut Device,
        /* all out */
        bytes_in_use: i64,
        peak_bytes_in_use: i64,
        peak_bytes_in_use_is_set: bool,
        num_allocs: i64,
        num_allocs_is_set: bool,
        largest_alloc_size: i64,
        largest_alloc_size_is_set: bool,
        bytes_limit: i64,
        bytes_limit_is_set: bool,
        bytes_reserved: i64,
        bytes_reserved_is_set: bool,
        peak_bytes_reserved: i64,
        peak_bytes_reserved_is_set: bool,
        bytes_reservable_limit: i64,
        bytes_reservable_limit_is_set: bool,
        largest_free_block_bytes: i64,
        largest_free_block_bytes_is_set: bool,
        pool_bytes: i64,
        pool_bytes_is_set: bool,
        peak_pool_bytes: i64,
        peak_pool_bytes_is_set: bool,
    }
    MemoryId { memory: *mut Memory, /* out */ id: c_int, }
    MemoryKind { memory: *mut Memory, /* out */ text: *const c_char, text_size: usize, }

    ExecutableDestroy { executable: *mut Executable, }
    ExecutableNumOutputs { executable: *mut Executable, /* out */ num_outputs: usize, }
    ExecutableSerialize {
        executable: *const Executable,
        /* out */ bytes: *const c_char,
        bytes_size: usize,
        serialized: *mut SerializedExecutable,
        deleter: Option<unsafe extern "C" fn(serialized: *mut SerializedExecutable)>,
    }
    ExecutableGetCompiledMemoryStats {
        executable: *mut Executable,
        /* all out */
        generated_code_bytes: i64,
        argument_bytes: i64,
        output_bytes: i64,
        alias_bytes: i64,
        temporary_bytes: i64,
        host_generated_code_bytes: i64,
        host_argument_bytes: i64,
        host_output_bytes: i64,
        host_alias_bytes: i64,
        host_temporary_bytes: i64,
        peak_bytes: i64,
    }
    ExecutableDeserializeAndLoad {
        client: *mut Client,
        bytes: *const c_char,
        bytes_size: usize,
        /* out */ executable: *mut LoadedExecutable,
        overridden_options: *const c_char,
        overridden_options_size: usize,
    }
    LoadedExecutableDestroy { executable: *mut LoadedExecutable, }
    LoadedExecutableGetExecutable { loaded: *mut LoadedExecutable, /* out */ executable: *mut Executable, }
    LoadedExecutableExecute {
        executable: *mut LoadedExecutable,
        options: *const ExecuteOptions,
        argument_lists: *const *const *mut Buffer,
        num_devices: usize,
        num_args: usize,
        output_lists: *const *mut *mut Buffer,
        device_complete_events: *mut *mut Event,
        execute_device: *mut Device,
    }

    BufferDestroy { buffer: *mut Buffer, }
    BufferElementType { buffer: *mut Buffer, /* out */ element_type: c_int, }
    BufferDimensions { buffer: *mut Buffer, /* out */ dims: *const i64, num_dims: usize, }
    BufferOnDeviceSizeInBytes { buffer: *mut Buffer, /* out */ bytes: usize, }
    BufferIsDeleted { buffer: *mut Buffer, /* out */ is_deleted: bool, }
    BufferCopyToDevice { buffer: *mut Buffer, device: *mut Device, /* out */ copy: *mut Buffer, }
    BufferToHostBuffer {
        buffer: *mut Buffer,
        host_layout: *const MemoryLayout,
        data: *mut c_void,
        data_size: usize,
        /* out */ event: *mut Event,
    }
    BufferReadyEvent { buffer: *mut Buffer, /* out */ event: *mut Event, }

    TopologyDescriptionCreate {
        name: *const c_char,
        name_size: usize,
        options: *const NamedValue,
        num_options: usize,
        /* out */ topology: *mut TopologyDescription,
    }
    TopologyDescriptionDestroy { topology: *mut TopologyDescription, }
    TopologyDescriptionPlatformName {
        topology: *const TopologyDescription,
        /* out */ text: *const c_char,
        text_size: usize,
    }
    Compile {
        topology: *const TopologyDescription,
        program: *const Program,
        options: *const c_char,
        options_size: usize,
        client: *mut Client,
        /* out */ executable: *mut Executable,
    }
}
